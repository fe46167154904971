"""`manage.py consume_orders`: charges orders, each in a transaction of its own."""

import json

from confluent_kafka import Message
from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError, close_old_connections, transaction
from django.db.models import F

from linear_retry import LinearConsumer, Strategy
from shop.models import Account, Charge


class Command(BaseCommand):
    """Consumes until SIGTERM or Ctrl-C."""

    help = "Charges the orders of the topic `orders`."

    def handle(self, *_: object, **_options: object) -> None:
        """Runs the consumer; ends after the message in hand."""
        with LinearConsumer(
            {"bootstrap.servers": settings.KAFKA_BOOTSTRAP, "group.id": "shop"},
            ["orders"],
            strategy=Strategy([1, 2, 5, {"every": "30s", "times": 20}]),
            transient=(OperationalError, InterfaceError),
            dead_letters="orders.dlq",
        ) as consumer:
            consumer.run(charge)


def charge(message: Message) -> None:
    """Charges one order: all of it or nothing, and once though the message may come twice."""
    # As at the start of a request: atomic() replaces a connection that an outage has broken, but a
    # query outside it would use the broken one for ever.
    close_old_connections()
    order = json.loads(message.value() or b"")
    if order["cents"] <= 0:
        raise ValueError(f"order {order['order']}: cents={order['cents']}, it must be positive")
    with transaction.atomic():
        account, _ = Account.objects.get_or_create(customer=order["customer"])
        _, is_new = Charge.objects.get_or_create(
            topic=message.topic(),
            partition=message.partition(),
            offset=message.offset(),
            defaults={"account": account, "order": order["order"], "cents": order["cents"]},
        )
        if is_new:
            spent = F("spent_cents") + order["cents"]
            Account.objects.filter(customer=account.customer).update(spent_cents=spent)
