/* The Gray-Scott step as a CUDA programmer writes it: the measure for our kernels on GPUs.
 *
 * Compiled with -DREAL=double -DPAIR=double2, or with float and float2, -DNOISE=0 or 1, and -DVARIABLES=1 for U alone
 * without the reaction (2 by default). Arrays are given by the address of cell (0, 0, 0); x is
 * contiguous, rows are `sy` and planes `sz` elements apart, and one layer of cells around nx*ny*nz can be read. Every
 * parameter is a word of 64 bits. `march` and `pairs` need blocks of a multiple of 32 threads along x, `pairs` an even nx
 * and cells (0, y, z) at multiples of the size of PAIR.
 */

#ifndef VARIABLES
#define VARIABLES 2
#endif
#define IF_V(value) (VARIABLES == 2 ? (value) : 0)

typedef unsigned int word;

/* A parameter in the precision of the arrays: a conversion from double would stay in the loops. */
union alignas(8) Number {
    REAL value;
    unsigned long bits;
};

struct Rates {
    REAL du, dv, feed, loss, dt, noise;
};

/* Philox4x32-10 of J. Salmon et al., SC11. */
static __device__ __forceinline__ uint4 philox(uint4 c, word k0, word k1)
{
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const word high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        const word high2 = __umulhi(0xCD9E8D57u, c.z), low2 = 0xCD9E8D57u * c.z;
        c = make_uint4(high2 ^ c.y ^ k0, low2, high0 ^ c.w ^ k1, low0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

/* Word number i; selects, because indexing would put the words into memory. */
static __device__ __forceinline__ word pick(uint4 w, word i)
{
    const word low = i & 1 ? w.y : w.x, high = i & 1 ? w.w : w.z;
    return i & 2 ? high : low;
}

static __device__ __forceinline__ REAL signed_unit(word w)
{
    return sizeof(REAL) == 8 ? (REAL)((double)(int)w * 0x1p-31) : (REAL)((float)((int)w >> 8) * 0x1p-23f);
}

/* New values of U and V at a cell from its own, the sums of its six neighbours, and a random number. */
static __device__ __forceinline__ void react(REAL u, REAL v, REAL sum_u, REAL sum_v, REAL r, const Rates &rates,
                                             REAL *u_next, REAL *v_next)
{
    const REAL sixth = (REAL)(1.0 / 6.0), reaction = IF_V(u * v * v);
    REAL du = rates.du * (sum_u * sixth - u) - reaction + rates.feed * ((REAL)1 - u);
    const REAL dv = rates.dv * (sum_v * sixth - v) + reaction - rates.loss * v;
    if (NOISE)
        du += rates.noise * r;
    *u_next = u + rates.dt * du;
    *v_next = v + rates.dt * dv;
}

static __device__ __forceinline__ Rates constants(Number du, Number dv, Number feed, Number loss, Number dt,
                                                  Number noise)
{
    const Rates rates = {du.value, dv.value, feed.value, loss.value, dt.value, noise.value};
    return rates;
}

#define PARAMETERS                                                                                                     \
    REAL *__restrict__ u_next, REAL *__restrict__ v_next, const REAL *__restrict__ u, const REAL *__restrict__ v,      \
        long nx, long ny, long nz, long sy, long sz, Number du, Number dv, Number feed, Number loss, Number dt,        \
        Number noise, unsigned long seed, long step, long planes

/* One cell a thread, as the equations stand. */
extern "C" __global__ void naive(PARAMETERS)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x >= nx || y >= ny)
        return;
    const Rates rates = constants(du, dv, feed, loss, dt, noise);
    const long i = x + y * sy + z * sz;
    const REAL sum_u = u[i - 1] + u[i + 1] + u[i - sy] + u[i + sy] + u[i - sz] + u[i + sz];
    const REAL sum_v = IF_V(v[i - 1] + v[i + 1] + v[i - sy] + v[i + sy] + v[i - sz] + v[i + sz]);
    REAL r = 0;
    if (NOISE)
        r = signed_unit(pick(philox(make_uint4(x >> 2, y, z, (word)step), (word)seed, (word)(seed >> 32)), x & 3));
    REAL new_v;
    react(u[i], IF_V(v[i]), sum_u, sum_v, r, rates, u_next + i, &new_v);
    if (VARIABLES == 2)
        v_next[i] = new_v;
}

/* Random numbers of four planes from z on. The four cells of a row that share a block of Philox are four neighbouring
 * lanes: each computes the block of one of the planes, and they exchange words. */
static __device__ __forceinline__ void four_planes(REAL *r, int x, int y, int z, word step, unsigned long seed)
{
    const word lane = x & 3;
    const uint4 mine = philox(make_uint4(x >> 2, y, z + lane, step), (word)seed, (word)(seed >> 32));
    uint4 found;
    found.x = pick(mine, lane);
    found.y = __shfl_sync(0xffffffffu, pick(mine, lane - 1), (lane + 1) & 3, 4);
    found.z = __shfl_sync(0xffffffffu, pick(mine, lane - 2), (lane + 2) & 3, 4);
    found.w = __shfl_sync(0xffffffffu, pick(mine, lane - 3), (lane + 3) & 3, 4);
#pragma unroll
    for (int j = 0; j < 4; j++)
        r[j] = signed_unit(pick(found, j - lane));
}

/* A column of cells a thread, from plane to plane: the planes before, here and after in registers, neighbours in the
 * plane from the first cache, stores that leave the caches to the loads. */
extern "C" __global__ void __launch_bounds__(512) march(PARAMETERS)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const bool inside = x < nx && y < ny;
    const Rates rates = constants(du, dv, feed, loss, dt, noise);
    const long first = blockIdx.z * planes, last = first + planes < nz ? first + planes : nz;
    /* Threads outside go along at the last cell: their lanes take part in the exchange. */
    long i = (x < nx ? x : nx - 1) + (y < ny ? y : ny - 1) * sy + first * sz;
    REAL u_below = u[i - sz], u_here = u[i], v_below = IF_V(v[i - sz]), v_here = IF_V(v[i]);
    for (long z = first; z < last; z += 4) {
        REAL r[4] = {0, 0, 0, 0};
        if (NOISE)
            four_planes(r, x, y, z, step, seed);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (z + j < last) {
                const REAL u_above = u[i + sz], v_above = IF_V(v[i + sz]);
                const REAL sum_u = u[i - 1] + u[i + 1] + u[i - sy] + u[i + sy] + u_below + u_above;
                const REAL sum_v = IF_V(v[i - 1] + v[i + 1] + v[i - sy] + v[i + sy] + v_below + v_above);
                REAL new_u, new_v;
                react(u_here, v_here, sum_u, sum_v, r[j], rates, &new_u, &new_v);
                if (inside) {
                    __stcs(u_next + i, new_u);
                    if (VARIABLES == 2)
                        __stcs(v_next + i, new_v);
                }
                u_below = u_here, u_here = u_above, v_below = v_here, v_here = v_above;
                i += sz;
            }
        }
    }
}

/* Random numbers of a pair of cells in two planes: the two threads that share a block of Philox exchange words. */
static __device__ __forceinline__ void two_planes(REAL r[2][2], int x, int y, int z, word step, unsigned long seed)
{
    const word odd = (x >> 1) & 1;
    const uint4 mine = philox(make_uint4(x >> 2, y, z + odd, step), (word)seed, (word)(seed >> 32));
    const REAL own[2] = {signed_unit(odd ? mine.z : mine.x), signed_unit(odd ? mine.w : mine.y)};
    const REAL got[2] = {signed_unit(__shfl_xor_sync(0xffffffffu, odd ? mine.x : mine.z, 1)),
                         signed_unit(__shfl_xor_sync(0xffffffffu, odd ? mine.y : mine.w, 1))};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r[0][i] = odd ? got[i] : own[i];
        r[1][i] = odd ? own[i] : got[i];
    }
}

/* As `march` with two cells beside each other a thread, loaded and stored at once. */
extern "C" __global__ void __launch_bounds__(512, 2) pairs(PARAMETERS)
{
    const int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x), y = blockIdx.y * blockDim.y + threadIdx.y;
    const bool inside = x < nx && y < ny;
    const Rates rates = constants(du, dv, feed, loss, dt, noise);
    const long first = blockIdx.z * planes, last = first + planes < nz ? first + planes : nz;
    const long start = (x < nx ? x : nx - 2) + (y < ny ? y : ny - 1) * sy + first * sz;
    const REAL *pu = u + start, *pv = v + start;
    REAL *qu = u_next + start, *qv = v_next + start;
#define AT(p) __ldg((const PAIR *)(p))
#define AT_V(p) (VARIABLES == 2 ? AT(p) : PAIR())
    PAIR u_below = AT(pu - sz), u_here = AT(pu), v_below = AT_V(pv - sz), v_here = AT_V(pv);
    for (long z = first; z < last; z += 2) {
        REAL r[2][2] = {{0, 0}, {0, 0}};
        if (NOISE)
            two_planes(r, x, y, z, step, seed);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            if (z + j < last) {
                const PAIR u_above = AT(pu + sz), v_above = AT_V(pv + sz);
                const PAIR u_north = AT(pu - sy), u_south = AT(pu + sy);
                const PAIR v_north = AT_V(pv - sy), v_south = AT_V(pv + sy);
                const REAL left_u = pu[-1] + u_here.y, right_u = u_here.x + pu[2];
                const REAL left_v = IF_V(pv[-1] + v_here.y), right_v = IF_V(v_here.x + pv[2]);
                PAIR new_u, new_v;
                react(u_here.x, v_here.x, left_u + u_north.x + u_south.x + u_below.x + u_above.x,
                      left_v + v_north.x + v_south.x + v_below.x + v_above.x, r[j][0], rates, &new_u.x, &new_v.x);
                react(u_here.y, v_here.y, right_u + u_north.y + u_south.y + u_below.y + u_above.y,
                      right_v + v_north.y + v_south.y + v_below.y + v_above.y, r[j][1], rates, &new_u.y, &new_v.y);
                if (inside) {
                    __stcs((PAIR *)qu, new_u);
                    if (VARIABLES == 2)
                        __stcs((PAIR *)qv, new_v);
                }
                u_below = u_here, u_here = u_above, v_below = v_here, v_here = v_above;
                pu += sz, pv += sz, qu += sz, qv += sz;
            }
        }
    }
}
