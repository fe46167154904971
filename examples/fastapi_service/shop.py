"""A FastAPI service that takes orders and produces them, also while the brokers are away."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypedDict

from fastapi import FastAPI, Request, Response

from linear_retry.outbox import AsyncOutbox, OutboxHealth

logging.basicConfig(level=logging.INFO)


class State(TypedDict):
    """What the lifespan hands to the requests, as `request.state`."""

    outbox: AsyncOutbox


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[State]:
    """Produces from the start of the service to its end."""
    config = {
        "bootstrap.servers": os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092"),
        "message.timeout.ms": 3_000,  # then a request is answered from the store
    }
    async with AsyncOutbox(config) as outbox:
        yield {"outbox": outbox}  # until the server has answered its last request


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def order(request: Request) -> dict[str, str]:
    """Answers once the order is in Kafka, or in the store; 500 if it is in neither."""
    outbox: AsyncOutbox = request.state.outbox
    message = await outbox.produce("orders", await request.body())
    place = "store" if message.offset is None else "kafka"
    return {"message_id": message.message_id, "place": place}


@app.get("/livez")
async def livez(request: Request, response: Response) -> OutboxHealth:
    """503 where a restart helps."""
    health: OutboxHealth = request.state.outbox.health()
    response.status_code = 200 if health.alive else 503
    return health


@app.get("/readyz")
async def readyz(request: Request, response: Response) -> OutboxHealth:
    """503 while an order could be lost: neither Kafka nor the store takes it."""
    health: OutboxHealth = request.state.outbox.health()
    response.status_code = 200 if health.ready else 503
    return health
