"""Waves in a rotating basin: shallow water on a staggered grid (Arakawa C), the whole program."""
import numpy as np

import gondwana as gw

NX, NY, STEPS, DT, F = 240, 160, 900, 0.4, 0.02     # cells, steps; the waves go one cell in a unit of time
h = gw.from_function(lambda x, y: 1 + 0.2 * np.exp(-((x - 80) ** 2 + (y - 80) ** 2) / 200), (NX, NY), ghost=1)
u = gw.zeros(h.layout.staggered(0))                 # velocity along x on the faces between the cells p - X and p ...
v = gw.zeros(h.layout.staggered(1))                 # ... and along y; both are divided as the cells are
inside_u = u.owned & gw.RectDomain((1, 0), (NX, NY))    # all faces but the walls, where the velocity stays 0
inside_v = v.owned & gw.RectDomain((0, 1), (NX, NY))

@gw.foreach
def push_x(p, u, v, h):                             # du/dt = F v - dh/dx, at a face
    across = 0.25 * (v[p] + v[p + gw.Y] + v[p - gw.X] + v[p - gw.X + gw.Y])
    u[p] += DT * (F * across - (h[p] - h[p - gw.X]))

@gw.foreach
def push_y(p, v, u, h):                             # dv/dt = -F u - dh/dy, with the new u
    across = 0.25 * (u[p] + u[p + gw.X] + u[p - gw.Y] + u[p + gw.X - gw.Y])
    v[p] -= DT * (F * across + (h[p] - h[p - gw.Y]))

@gw.foreach
def flow(p, new, h, u, v):                          # dh/dt = -div(h u): what leaves a cell enters the next
    east, west = u[p + gw.X] * (h[p] + h[p + gw.X]), u[p] * (h[p - gw.X] + h[p])
    north, south = v[p + gw.Y] * (h[p] + h[p + gw.Y]), v[p] * (h[p - gw.Y] + h[p])
    new[p] = h[p] - 0.5 * DT * (east - west + north - south)

new, before = gw.zeros_like(h), h.sum()
for step in range(STEPS):
    gw.exchange(h, v, corners=True).wait()
    push_x(inside_u, u, v, h)
    u.exchange(corners=True).wait()
    push_y(inside_v, v, u, h)
    v.exchange().wait()
    flow(h.owned, new, h, u, v)
    h, new = new, h
change, height = h.sum() / before - 1, h.max() - 1
if gw.world.rank == 0:
    print(f"change of mass: {change:.1e}; highest water: {height:.3f}")
