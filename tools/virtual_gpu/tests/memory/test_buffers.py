"""Buffers at host addresses: bounds, names, typed views, coverage of writes."""

from __future__ import annotations

import numpy as np
import pytest

from astra_vgpu.memory.buffers import Memory, items_of


def test_buffers_are_found_by_any_byte_inside() -> None:
    memory = Memory()
    first, second = np.zeros(10, np.float32), np.zeros((3, 5), np.int16)
    a, b = memory.add(first, "first"), memory.add(second, "second")
    assert a == first.ctypes.data
    for address, array in ((a, first), (b, second)):
        for offset in (0, 1, array.nbytes - 1):
            buffer = memory.find(address + offset)
            assert buffer is not None and buffer.address == address
            assert buffer.nbytes == array.nbytes
    assert memory.find(a - 1) is None or a - 1 >= b
    end = memory.find(a + first.nbytes)
    assert end is None or end.name == "second"
    assert memory.find(0) is None


def test_data_is_a_view() -> None:
    memory, array = Memory(), np.zeros(4, np.uint32)
    buffer = memory.find(memory.add(array, "x"))
    assert buffer is not None
    buffer.data[4:8] = [1, 2, 0, 0]
    assert list(array) == [0, 0x201, 0, 0]


def test_an_address_in_a_freed_buffer() -> None:
    memory, array, other = Memory(), np.zeros(4), np.zeros(4)
    address = memory.add(array, "x")
    memory.remove(address, freed=True)
    assert "use after free: offset 8 of x of 32 bytes" in memory.describe(address + 8)
    memory.add(other, "y")
    assert "use after free" not in memory.describe(address + 32)
    memory.add(array, "z")
    assert "use after free" not in memory.describe(address + 32)
    assert memory.place(address) == "offset 0 of z (32 bytes)"


def test_removal() -> None:
    memory, array = Memory(), np.zeros(4)
    address = memory.add(array, "x")
    memory.remove(address)
    assert memory.find(address) is None
    with pytest.raises(KeyError, match="no buffer begins"):
        memory.remove(address)
    memory.add(array, "again")


def test_overlaps_and_strided_arrays_are_refused() -> None:
    memory, array = Memory(), np.zeros(10, np.float32)
    memory.add(array[2:6], "middle")
    for part in (array[5:], array[:3], array[3:4], array):
        with pytest.raises(ValueError, match="overlaps"):
            memory.add(part, "part")
    memory.add(array[6:], "tail")
    memory.add(array[:2], "head")
    with pytest.raises(ValueError, match="not contiguous"):
        memory.add(np.zeros((4, 4))[:, 1], "column")


def test_descriptions_name_the_nearest_buffer() -> None:
    memory, room = Memory(), np.zeros(4000, np.uint8)
    a = memory.add(room[:1000], "a")
    memory.add(room[3000:], "b")
    assert "nearest buffer: a of 1000 bytes, offset 1004" in memory.describe(a + 1004)
    assert "nearest buffer: b of 1000 bytes, offset -8" in memory.describe(a + 2992)
    assert "null pointer" in memory.describe(16)
    assert "no buffer is registered" in Memory().describe(5000)


def test_items_begin_at_multiples_of_their_size() -> None:
    room = np.arange(64, dtype=np.uint8)
    skip = -room.ctypes.data % 16
    data = room[skip + 2 : skip + 43]
    items, first = items_of(data, 4, int(data.ctypes.data))
    assert first == data.ctypes.data + 2 and items.size == 9
    assert items[0] == int.from_bytes(bytes(range(skip + 4, skip + 8)), "little")
    wide, first = items_of(data, 16, int(data.ctypes.data))
    assert first == data.ctypes.data + 14 and wide.size == 1 and wide.itemsize == 16
    assert items_of(data[:3], 16, int(data.ctypes.data))[0].size == 0


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_written_bytes_are_noted(size: int) -> None:
    memory = Memory()
    room = np.zeros(128 + 16, np.uint8)
    array = room[-room.ctypes.data % 16 :][:128]
    address = memory.add(array, "x")
    buffer = memory.find(address)
    assert buffer is not None and buffer.written is None
    buffer.mark_written(size, np.array([1]))
    memory.track_writes(True)
    buffer.mark_written(size, np.array([1, 3]))
    expected = np.zeros(128, np.bool_)
    expected[size : 2 * size] = expected[3 * size : 4 * size] = True
    assert buffer.written is not None and np.array_equal(buffer.written, expected)
    memory.track_writes(True)
    assert not memory.find(address).written.any()  # type: ignore[union-attr]
    memory.track_writes(False)
    assert buffer.written is None


def test_buffers_added_while_tracking_are_tracked() -> None:
    memory, array = Memory(), np.zeros(4)
    memory.track_writes(True)
    buffer = memory.find(memory.add(array, "x"))
    assert buffer is not None and buffer.written is not None and buffer.written.size == 32
