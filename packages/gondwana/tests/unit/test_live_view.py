"""The live view without a job: who may read it, what it says, and what programs give it."""

from __future__ import annotations

import base64
import json
import secrets
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.liveview import values
from gondwana.liveview.__main__ import Server, View
from gondwana.runtime.watching import live as answers
from gondwana.runtime.watching.channel import Channel
from gondwana.runtime.watching.sockets import connect_to_launcher, listener_for_ranks

TOKEN, SECRET = "a-token", secrets.token_bytes(32)


@pytest.fixture
def view() -> Iterator[tuple[str, str]]:
    """The address of a page, and that for ranks."""
    listening, addresses = listener_for_ranks(several_hosts=False)
    shown = View(SECRET)
    threading.Thread(target=shown.attend, args=(listening,), daemon=True).start()
    server = Server(socket.create_server(("127.0.0.1", 0)), shown, TOKEN)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.socket.getsockname()[1]}", f"{SECRET.hex()} {addresses}"
    server.shutdown()
    server.server_close()
    for channel in shown._tree.channels if shown._tree is not None else ():
        channel.close()


def read(address: str) -> tuple[bytes, str]:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return answer.read(), answer.headers["Content-Type"]


def test_the_token_lets_in(view: tuple[str, str]) -> None:
    page, kind = read(f"{view[0]}/?token={TOKEN}")
    assert kind.startswith("text/html")
    assert b"<script" in page
    assert b"//" not in page.replace(b"http://127.0.0.1", b"").partition(b"<script>")[0], "nothing from a network"
    state, kind = read(f"{view[0]}/state?token={TOKEN}")
    assert kind == "application/json"
    assert json.loads(state) == {"age": None, "ranks": {}, "roll_call": ""}


@pytest.mark.parametrize("path", ["/", "/state", "/?token=", f"/state?token={TOKEN}x", f"/state?token={TOKEN[:-1]}"])
def test_without_the_token_nothing_is_shown(view: tuple[str, str], path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        read(f"{view[0]}{path}")
    assert refused.value.code == 403
    with refused.value as answer:
        assert b"ranks" not in answer.read()


def test_other_paths_do_not_exist(view: tuple[str, str]) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        read(f"{view[0]}/../etc/passwd?token={TOKEN}")
    assert refused.value.code == 404
    refused.value.close()


def test_the_answers_of_the_ranks_are_shown(view: tuple[str, str]) -> None:
    channel = answers.connect(view[1])
    assert channel is not None
    threading.Thread(target=answer_once, args=(channel,), daemon=True).start()
    state: dict[str, object] = {}
    while not state.get("ranks"):  # until the view has taken the connection
        state = json.loads(read(f"{view[0]}/state?token={TOKEN}")[0])
    assert state["ranks"] == {"0": {"memory": 1}}
    assert "rank 0 in step (heat.py:7) waits for a message" in str(state["roll_call"])
    channel.close()


def answer_once(channel: Channel) -> None:
    channel.socket.setblocking(True)
    questions = channel.receive()
    stand = [[["step", "/home/heat.py", 7]], ["for a message", "receive", [1], 0, 0]]
    channel.send(["here", questions[0][1], [[0, [*stand, {"memory": 1}]]]])


def test_strangers_are_not_taken_for_ranks(view: tuple[str, str]) -> None:
    with connect_to_launcher(view[1].split()[1:]) as stranger:
        stranger.sendall(b"0 1 2\n")
        stranger.settimeout(10)
        assert stranger.recv(100)  # the challenge
        assert not stranger.recv(100)  # then the end
    assert answers.connect(f"{'0' * 64} {view[1].split()[1]}") is None


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, object]]:
    found: dict[str, tuple[int, object]] = {}
    monkeypatch.setattr(answers, "_values", found)
    return found


def test_values_are_read_once_a_question(given: dict[str, tuple[int, object]]) -> None:
    assert gw.live(T_eff="12 GB/s").address == ""
    gw.live(T_eff="13 GB/s")
    assert answers.facts()["values"] == {"T_eff": "12 GB/s"}
    gw.live(T_eff="14 GB/s")
    assert answers.facts()["values"] == {"T_eff": "14 GB/s"}


@pytest.mark.parametrize("kind", [gw.host, gw.fake_device])
def test_a_slice_of_a_field_is_shown(given: dict[str, tuple[int, object]], kind: gw.MemoryKind) -> None:
    box = gw.RectDomain((5, 0, 0), (8, 300, 20))
    field = gw.zeros(box, ghost=1, kind=kind)
    gw.copy(gw.from_function(lambda x, y, z: 10000.0 * x + 100 * y + z, box), field).wait()
    gw.live(T=field)
    part = given["T"][1]
    assert isinstance(part, dict)
    assert (part["size"], part["at"], part["cells"]) == ([100, 7], [0, 0], [3, 300, 20])
    plane = np.frombuffer(base64.b64decode(part["data"]), np.float32).reshape(part["shape"])
    assert np.array_equal(plane, field.to_numpy()[1, ::3, ::3].astype(np.float32))


@pytest.mark.parametrize("data", [np.arange(5), np.arange(300.0)])
def test_local_arrays_and_rows_are_shown(given: dict[str, tuple[int, object]], data: np.ndarray) -> None:
    gw.live(row=data)
    part = given["row"][1]
    assert isinstance(part, dict)
    step = -(-len(data) // values.MOST)
    assert part["size"] == part["shape"] == [1, -(-len(data) // step)]
    assert np.array_equal(np.frombuffer(base64.b64decode(part["data"]), np.float32), data[::step])


def test_other_elements_are_refused(given: dict[str, tuple[int, object]]) -> None:
    with pytest.raises(UsageError, match=r"gw\.live\(psi=\.\.\.\): elements of complex128 are not numbers"):
        gw.live(psi=np.zeros((2, 2), complex))
