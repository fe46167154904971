"""Creates accounts and charges."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """As `makemigrations` has written it."""

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Account",
            fields=[
                ("customer", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("spent_cents", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Charge",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("order", models.BigIntegerField()),
                ("cents", models.BigIntegerField()),
                ("topic", models.CharField(max_length=249)),
                ("partition", models.IntegerField()),
                ("offset", models.BigIntegerField()),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, to="shop.account"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("topic", "partition", "offset"), name="one_charge_per_message"
                    )
                ],
            },
        ),
    ]
