# syntax=docker/dockerfile:1
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY server ./server
COPY recall ./recall
COPY skills ./skills
COPY clients/python ./clients/python
RUN python -m venv /opt/nomemory \
 && /opt/nomemory/bin/pip install --no-cache-dir --constraint constraints.txt ./clients/python .

FROM python:3.12-slim
COPY --from=build /opt/nomemory /opt/nomemory
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin nomemory \
 && install --directory --owner nomemory --group nomemory /data
ENV PATH=/opt/nomemory/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NOMEMORY_DATA=/data \
    NOMEMORY_EMBEDDING_MODELS=/data/models \
    NOMEMORY_LISTEN=127.0.0.1:7700
USER 10001
VOLUME /data
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s --retries=3 \
  CMD ["python", "-m", "nomemory.server.healthcheck"]
ENTRYPOINT ["nomemory"]
CMD ["serve"]
