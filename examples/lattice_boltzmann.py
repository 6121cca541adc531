"""Vortices that decay: a lattice Boltzmann method with nine populations in each cell (D2Q9), the whole program."""
import numpy as np

import gondwana as gw

NX, NY, STEPS, U, OMEGA = 192, 128, 1500, 0.02, 1.25  # cells, steps, speed at the start, 1 / relaxation time
KX, KY, VISCOSITY = 2 * np.pi / NX, 2 * np.pi / NY, (1 / OMEGA - 0.5) / 3
EX, EY = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
E, W = tuple(x * gw.X + y * gw.Y for x, y in zip(EX, EY)), (4 / 9, *4 * (1 / 9,), *4 * (1 / 36,))

@gw.jit
def equilibrium(q, rho, ux, uy):
    along = 3.0 * (EX[q] * ux + EY[q] * uy)
    return W[q] * rho * (1.0 + along + 0.5 * along * along - 1.5 * (ux * ux + uy * uy))

@gw.jit
def moments(p, f):                                   # density and velocity of what streams into a cell
    rho = mx = my = 0.0
    for q in range(9):
        n = f[q][p - E[q]]
        rho, mx, my = rho + n, mx + EX[q] * n, my + EY[q] * n
    return rho, mx / rho, my / rho

@gw.foreach
def start(p, f):                                     # Taylor-Green vortices
    ux = -U * np.cos(KX * p[0]) * np.sin(KY * p[1])
    uy = U * KX / KY * np.sin(KX * p[0]) * np.cos(KY * p[1])
    for q in range(9):
        f[q][p] = equilibrium(q, 1.0, ux, uy)

@gw.foreach
def step(p, g, f):
    rho, ux, uy = moments(p, f)
    for q in range(9):
        n = f[q][p - E[q]]
        g[q][p] = n + OMEGA * (equilibrium(q, rho, ux, uy) - n)

@gw.foreach
def velocity(p, ux, uy, f):
    _, ux[p], uy[p] = moments(p, f)
f, g = (tuple(gw.zeros((NX, NY), ghost=1, periodic=True) for q in range(9)) for _ in range(2))
ux, uy = gw.zeros((NX, NY)), gw.zeros((NX, NY))
start(f[0].owned, f)
for _ in range(STEPS):
    ghosts = gw.exchange(*f, corners=True)           # the cells of all nine in one message to a neighbour ...
    step(f[0].inner, g, f)                           # ... while the cells that need no ghosts are computed
    ghosts.wait()
    step(f[0].rim, g, f)
    f, g = g, f
gw.exchange(*f, corners=True).wait()
velocity(ux.owned, ux, uy, f)
decay = np.exp(-VISCOSITY * (KX**2 + KY**2) * STEPS)
error = np.abs(ux.to_numpy() / (U * decay) + np.outer(np.cos(KX * np.arange(NX)), np.sin(KY * np.arange(NY)))).max()
if gw.world.rank == 0:
    print(f"{decay:.1%} of the speed are left; relative error of the velocity: {error:.1e}")
