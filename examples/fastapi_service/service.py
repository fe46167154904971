"""A FastAPI service that charges orders in the background, with probes for its health."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypedDict

import httpx
from confluent_kafka import Message
from fastapi import FastAPI, Request, Response

from linear_retry import Health, LinearConsumer, RetryAfter, Strategy, message_id

logging.basicConfig(level=logging.INFO)
logging.getLogger("httpx").setLevel(logging.WARNING)


class State(TypedDict):
    """What the lifespan hands to the requests, as `request.state`."""

    consumer: LinearConsumer


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[State]:
    """Consumes from the start of the service to its end."""
    async with httpx.AsyncClient(base_url="http://localhost:8000", timeout=10) as payments:

        async def charge(message: Message) -> None:
            once = {"Idempotency-Key": message_id(message)}
            response = await payments.post("/charges", content=message.value(), headers=once)
            if response.status_code in (429, 502, 503, 504):
                raise RetryAfter.from_response(response)
            response.raise_for_status()

        async with make_consumer().running(charge) as consumer:
            yield {"consumer": consumer}  # until the server has answered its last request


def make_consumer() -> LinearConsumer:
    """The consumer of the orders; it does no I/O before it runs."""
    return LinearConsumer(
        {
            "bootstrap.servers": os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092"),
            "group.id": "billing-service",
        },
        ["orders"],
        strategy=Strategy([1, 2, 5, {"every": "30s", "times": 20}]),
        transient=httpx.TransportError,
        dead_letters="orders.dlq",
    )


app = FastAPI(lifespan=lifespan)


@app.get("/livez")
async def livez(request: Request, response: Response) -> Health:
    """503 where a restart helps: the consumer has ended, or its handler hangs."""
    health: Health = request.state.consumer.health()
    response.status_code = 200 if health.alive else 503
    return health


@app.get("/readyz")
async def readyz(request: Request, response: Response) -> Health:
    """503 until the consumer is in its group, and once it has been asked to stop."""
    health: Health = request.state.consumer.health()
    response.status_code = 200 if health.ready else 503
    return health
