# syntax=docker/dockerfile:1
# The base image must provide Python 3.11 or newer as `python`, with venv and pip.
ARG BASE_IMAGE=python:3.12-slim
FROM ${BASE_IMAGE} AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY server ./server
COPY recall ./recall
COPY skills ./skills
COPY sample/messages.jsonl ./sample/messages.jsonl
COPY clients/python ./clients/python
RUN python -m venv --without-pip /opt/nomemory \
 && python -m pip --python /opt/nomemory/bin/python install --no-cache-dir --constraint constraints.txt ./clients/python '.[openai,otel,postgres,qdrant]'

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="NoMemory" \
      org.opencontainers.image.description="A verifiable memory for chat assistants" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/nomemory/nomemory" \
      io.modelcontextprotocol.server.name="io.github.nomemory/nomemory"
COPY --from=build /opt/nomemory /opt/nomemory
RUN groupadd --gid 10001 nomemory \
 && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin nomemory \
 && install --directory --owner nomemory --group nomemory --mode 700 /data /keys
# /keys is the mount point of a volume with keys that several servers share.
# SQLite writes its temporary files to the data volume, so the root file system can be read-only.
ENV PATH=/opt/nomemory/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SQLITE_TMPDIR=/data \
    NOMEMORY_DATA=/data \
    NOMEMORY_EMBEDDING_MODEL_CACHE_DIR=/data/models \
    NOMEMORY_LISTEN=127.0.0.1:7700
USER 10001:10001
VOLUME /data
EXPOSE 7700
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=3 \
  CMD ["python", "-m", "nomemory.server.runtime.healthcheck"]
ENTRYPOINT ["nomemory"]
CMD ["serve"]
