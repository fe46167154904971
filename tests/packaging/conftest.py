"""The distributions of this checkout, built once for the run."""

import tarfile
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.docs.markdown import ROOT
from tests.packaging.distributions import build, install


@dataclass(frozen=True, slots=True)
class Built:
    """What is built of this checkout; the metadata are those of the first wheel."""

    wheel: Path
    installed: Path
    metadata: Message
    description: str
    sdist: Path
    wheel_of_sdist: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("distributions")
    wheel, sdist = build("wheel", ROOT, folder), build("sdist", ROOT, folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    install(wheel, folder / "installed")
    metadata = _metadata(wheel)
    return Built(
        wheel=wheel,
        installed=folder / "installed",
        metadata=metadata,
        description=str(metadata.get_payload()),
        sdist=sdist,
        wheel_of_sdist=build("wheel", source, source),
    )


def _metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return BytesParser(policy=default).parsebytes(archive.read(name))
