"""Counting, listing and exporting: what is there, exactly, whatever lands meanwhile, and nothing of anybody else."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from talk import ids, refusal, said

if TYPE_CHECKING:
    from conftest import Server
