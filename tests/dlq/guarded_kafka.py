"""A real broker that wants a login, and has access rules."""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported by import only
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests import kafka_jars
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

_PASSWORDS = {"admin": "admin-secret", "reader": "reader-secret"}
_STORE_PASSWORD = "store-secret"


class GuardedKafka(RealKafka):
    """A real broker with SASL and TLS: `admin` may everything, `reader` what is not denied.

    With `strict`, `reader` may only what is allowed.
    """

    def __init__(self, directory: Path, *, strict: bool = False) -> None:
        directory.mkdir(parents=True)
        self.certificate = directory / "broker.pem"
        store = _certified(self.certificate)
        users = " ".join(f'user_{name}="{word}"' for name, word in _PASSWORDS.items())
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'username="admin" password="{_PASSWORDS["admin"]}"'
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
            # Named, or the broker would come to itself without a login: transactions need that.
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": f"{module} required {login} {users};",
            "listener.name.plaintext.ssl.keystore.location": str(store),
            "listener.name.plaintext.ssl.keystore.type": "PKCS12",
            "listener.name.plaintext.ssl.keystore.password": _STORE_PASSWORD,
            # The broker is its own client too, for transactions.
            "listener.name.plaintext.ssl.truststore.location": str(store),
            "listener.name.plaintext.ssl.truststore.type": "PKCS12",
            "listener.name.plaintext.ssl.truststore.password": _STORE_PASSWORD,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",  # the controller's listener has no login
            "allow.everyone.if.no.acl.found": "false" if strict else "true",
        }
        super().__init__(directory, settings)

    def client_settings(self, **more: Any) -> dict[str, Any]:
        """Those of `admin`."""
        return super().client_settings(**self.keys("admin") | more)

    def keys(self, user: str) -> dict[str, str]:
        """What a client of this user needs."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificate),
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": _PASSWORDS[user],
        }

    def deny(self, kind: ResourceType, name: str, operation: AclOperation) -> None:
        """From now on `reader` must not."""
        self._rule(kind, name, operation, AclPermissionType.DENY)

    def allow(self, kind: ResourceType, name: str, operation: AclOperation) -> None:
        """From now on `reader` may, and nothing else with it that is not allowed as well."""
        self._rule(kind, name, operation, AclPermissionType.ALLOW)

    def allow_only(self, rules: Iterable[tuple[ResourceType, str, AclOperation]]) -> None:
        """From now on `reader` may this and nothing else. A name that ends in * is a prefix."""
        admin = AdminClient(self.client_settings())
        every = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]  # any; typed as a text
            ResourcePatternType.ANY,
            "User:reader",
            None,  # type: ignore[arg-type]  # any; typed as a text
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        (gone,) = admin.delete_acls([every]).values()
        gone.result(PATIENCE_S)
        wait_until(lambda: not admin.describe_acls(every).result(PATIENCE_S), "no rule is left")
        literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
        wanted = [
            AclBinding(
                kind,
                name.removesuffix("*"),
                prefixed if name.endswith("*") else literal,
                "User:reader",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for kind, name, operation in rules
        ]
        for answer in admin.create_acls(wanted).values():
            answer.result(PATIENCE_S)
        known = len(set(wanted))
        wait_until(
            lambda: len(admin.describe_acls(every).result(PATIENCE_S)) == known,
            "the broker knows them",
        )

    def lift(self, kind: ResourceType, name: str, operation: AclOperation) -> None:
        """What was denied is not any more."""
        rule = AclBindingFilter(
            *(kind, name, ResourcePatternType.LITERAL, "User:reader", "*", operation),
            AclPermissionType.DENY,
        )
        admin = AdminClient(self.client_settings())
        (answer,) = admin.delete_acls([rule]).values()
        answer.result(PATIENCE_S)
        wait_until(lambda: not admin.describe_acls(rule).result(PATIENCE_S), "the rule is gone")

    def _rule(
        self, kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType
    ) -> None:
        acl = AclBinding(
            kind, name, ResourcePatternType.LITERAL, "User:reader", "*", operation, permission
        )
        admin = AdminClient(self.client_settings())  # kept until the answer is there
        (answer,) = admin.create_acls([acl]).values()
        answer.result(PATIENCE_S)
        # Agreed upon, but the broker may learn of it a little later.
        asked = AclBindingFilter(
            kind, name, ResourcePatternType.LITERAL, "User:reader", "*", operation, permission
        )
        wait_until(
            lambda: admin.describe_acls(asked).result(PATIENCE_S), "the broker knows the rule"
        )


def _certified(certificate: Path) -> Path:
    """A store with a key of its own, and at `certificate` what clients know it by."""
    store = certificate.with_suffix(".p12")
    common = ["-alias", "broker", "-keystore", str(store), "-storepass", _STORE_PASSWORD]
    name = ["-dname", "CN=broker", "-ext", "san=ip:127.0.0.1", "-validity", "2"]
    _keytool("-genkeypair", "-keyalg", "EC", "-storetype", "PKCS12", *name, *common)
    _keytool("-exportcert", "-rfc", "-file", str(certificate), *common)
    return store


def _keytool(*arguments: str) -> None:
    keytool = str(Path(kafka_jars.java()).with_name("keytool"))
    subprocess.run([keytool, *arguments], check=True, capture_output=True)
