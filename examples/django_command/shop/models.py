"""What the shop keeps."""

from django.db import models


class Account(models.Model):
    """What a customer has spent."""

    customer = models.CharField(max_length=100, primary_key=True)
    spent_cents = models.BigIntegerField(default=0)


class Charge(models.Model):
    """A message that has been handled: one row, however often it comes."""

    account = models.ForeignKey(Account, on_delete=models.PROTECT)
    order = models.BigIntegerField()
    cents = models.BigIntegerField()
    topic = models.CharField(max_length=249)
    partition = models.IntegerField()
    offset = models.BigIntegerField()

    class Meta:
        """The place in Kafka tells a message that comes again."""

        constraints = (
            models.UniqueConstraint(
                fields=("topic", "partition", "offset"), name="one_charge_per_message"
            ),
        )
