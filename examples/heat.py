"""Heat conduction in a periodic box: the whole program."""
import gondwana as gw

box = gw.RectDomain((0, 0, 0), (256, 256, 256))     # half-open, any base, like Python ranges
T = gw.zeros(box, ghost=1, periodic=True)           # GlobalArray: one block a rank, ghosts around it
T_next = gw.zeros_like(T)

@gw.foreach                                         # "for each point p of a domain, in any order"
def diffuse(p, T_next, T, k):
    T_next[p] = T[p] + k * (T[p + gw.X] + T[p - gw.X] + T[p + gw.Y] + T[p - gw.Y]
                            + T[p + gw.Z] + T[p - gw.Z] - 6.0 * T[p])

for step in range(100):
    ghosts = T.exchange()                           # one-sided puts to the neighbours start ...
    diffuse(T.inner, T_next, T, 0.1)                # ... the cells that need no ghost are computed ...
    ghosts.wait()
    diffuse(T.rim, T_next, T, 0.1)                  # ... then the others
    T, T_next = T_next, T
