"""The partition of a key, as librdkafka's partitioner `murmur2_random` and Java's clients take."""

_MASK = 0xFFFFFFFF
_FACTOR = 0x5BD1E995
_SEED = 0x9747B28C


def partition_of_key(key: bytes, partitions: int) -> int:
    """Returns the partition of a record with this key, in a topic with so many."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(key: bytes) -> int:
    """Returns the hash, an unsigned number of 32 bits."""
    found = _SEED ^ len(key)
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        four = int.from_bytes(key[start : start + 4], "little") * _FACTOR & _MASK
        four = (four ^ four >> 24) * _FACTOR & _MASK
        found = found * _FACTOR & _MASK ^ four
    if whole < len(key):
        found = (found ^ int.from_bytes(key[whole:], "little")) * _FACTOR & _MASK
    found = (found ^ found >> 13) * _FACTOR & _MASK
    return found ^ found >> 15
