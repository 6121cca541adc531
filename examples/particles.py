"""Two beams of electrons that pass through each other (particles in cells): the whole program."""
import numpy as np

import gondwana as gw

NX, NY, N, STEPS, DT = 128, 32, 1_000_000, 640, 0.05     # nodes, particles, steps; the plasma frequency is 1
K, SPEED = 2 * np.pi / NX, np.sqrt(3 / 8) * NX / (2 * np.pi)    # of the wave that grows fastest
KX, KY = 2 * np.pi * np.fft.fftfreq(NX)[:, None], 2 * np.pi * np.fft.rfftfreq(NY)[None, :]
K2 = np.where(KX**2 + KY**2 > 0, KX**2 + KY**2, np.inf)

@gw.jit
def deposit(parts, n, rho):                              # each particle on the four nodes around it
    for i in range(n):
        a, b = int(parts[i].x), int(parts[i].y)
        f, g = parts[i].x - a, parts[i].y - b
        rho[a, b] -= (1 - f) * (1 - g)
        rho[a + 1, b] -= f * (1 - g)                     # perhaps a ghost
        rho[a, b + 1] -= (1 - f) * g
        rho[a + 1, b + 1] -= f * g

@gw.jit
def between(e, a, b, f, g):                              # the field between four nodes
    return (1 - f) * ((1 - g) * e[a, b] + g * e[a, b + 1]) + f * ((1 - g) * e[a + 1, b] + g * e[a + 1, b + 1])

@gw.jit
def around(x, n):
    x = x + n if x < 0.0 else x
    return x - n if x >= n else x

@gw.jit
def push(parts, n, ex, ey, box, gone):                   # moves particles, and those that leave the box to `gone`
    i = left = 0
    while i < n:
        p = parts[i]
        a, b = int(p.x), int(p.y)
        f, g = p.x - a, p.y - b
        p.u, p.v = p.u - DT * between(ex, a, b, f, g), p.v - DT * between(ey, a, b, f, g)
        p.x, p.y = around(p.x + DT * p.u, NX), around(p.y + DT * p.v, NY)
        if box.lo[0] <= p.x < box.hi[0] and box.lo[1] <= p.y < box.hi[1]:
            i += 1
        else:
            gone[left], parts[i], left, n = p, parts[n - 1], left + 1, n - 1
    return n, left

rho, ex, ey = (gw.zeros((NX, NY), ghost=1, periodic=True) for _ in range(3))
parts, gone = (np.empty(N, [("x", float), ("y", float), ("u", float), ("v", float)]) for _ in range(2))
number = np.arange(gw.world.rank, N, gw.world.size)      # some of the particles, from anywhere in the box
x, start = NX * (number // 2 + 0.5) / (N // 2), gone[: len(number)]
start["x"], start["y"] = x + 0.002 * np.sin(K * x), NY * (number // 2 * 0.618034 % 1)
start["u"], start["v"] = SPEED * (1 - 2 * (number % 2)), 0
n, left, wave = 0, len(number), []
for step in range(STEPS):
    leavers = gone[:left]
    arrived = gw.migrate(leavers, rho.layout.owner((leavers["x"].astype(int), leavers["y"].astype(int))))
    parts[n : n + len(arrived)], n = arrived, n + len(arrived)
    rho.fill(0)
    deposit(parts, n, rho)
    rho.accumulate().wait()                              # what lies on ghosts goes to the owners of the nodes
    modes = np.fft.rfft2(rho.to_numpy()) * (NX * NY / N)
    for field, k in ((ex, KX), (ey, KY)):
        field.local.copy_from(gw.Array(np.fft.irfft2(-1j * k / K2 * modes, (NX, NY)), rho.domain))
    gw.exchange(ex, ey, corners=True).wait()
    wave.append(2 * abs(modes[1, 0]) / (NX * NY))
    n, left = push(parts, n, ex, ey, rho.owned, gone)
if gw.world.rank == 0:
    rate = np.log(wave[400] / wave[300]) / (100 * DT)
    print(f"the wave grows at a rate of {rate:.4f}, and by theory of {np.sqrt(1 / 8):.4f}")
