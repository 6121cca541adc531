/* V-cycles for minus the Laplacian on n^3 cells with Dirichlet walls, in slabs of planes: red-black Gauss-Seidel with
   over-relaxation before and after, linear prolongation between centres of cells and its transpose. One thread. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(a, i, j, k) (a)[((size_t)(i) * w + (j)) * w + (k)]
#define MOST 16
#define OMEGA 1.3

/* Fills the ghost planes at both ends of a slab that has neighbours; doubles of a plane; whether there are any. */
typedef void (*Exchange)(double *x, int planes, int plane);

typedef struct { int planes, n; double h; double *x, *b, *r; } Level;

static Level levels[MOST];
static int count, below, above;
static Exchange exchange;

static double *zeros(size_t size) { double *a = aligned_alloc(64, (size * 8 + 63) / 64 * 64); return memset(a, 0, size * 8); }

void start(int planes, int n, double h, int has_below, int has_above, Exchange with, double *x, double *b) {
    below = has_below, above = has_above, exchange = with, count = 0;
    for (; n >= 2; planes /= 2, n /= 2, h *= 2.0, count++) {
        size_t size = (size_t)(planes + 2) * (n + 2) * (n + 2);
        Level *one = &levels[count];
        *one = (Level){planes, n, h, count ? zeros(size) : x, count ? zeros(size) : b, zeros(size)};
    }
}

void stop(void) {
    for (int l = 0; l < count; l++) {
        free(levels[l].r);
        if (l) free(levels[l].x), free(levels[l].b);
    }
}

/* Ghosts at walls are minus the cells beside them, also along edges. */
static void fill(const Level *one, double *x) {
    int m = one->planes, n = one->n, w = n + 2;
    for (int i = 1; i <= m; i++) {
        for (int j = 1; j <= n; j++) AT(x, i, j, 0) = -AT(x, i, j, 1), AT(x, i, j, n + 1) = -AT(x, i, j, n);
        for (int k = 0; k < w; k++) AT(x, i, 0, k) = -AT(x, i, 1, k), AT(x, i, n + 1, k) = -AT(x, i, n, k);
    }
    for (int k = 0; k < w * w; k++) {
        if (!below) x[k] = -x[w * w + k];
        if (!above) x[(size_t)(m + 1) * w * w + k] = -x[(size_t)m * w * w + k];
    }
    if (below || above) exchange(x, m, w * w);
}

static void relax(const Level *one, double *x, const double *b, int first) {
    int m = one->planes, n = one->n, w = n + 2;
    double weight = 1.0 / (one->h * one->h);
    for (int colour = 0; colour < 2; colour++) {
        fill(one, x);
        for (int i = 1; i <= m; i++)
            for (int j = 1; j <= n; j++) {
                int walls = (i == 1 && !below) + (i == m && !above) + (j == 1) + (j == n);
                double inner = OMEGA / ((6 + walls) * weight), end = OMEGA / ((7 + walls) * weight);
                for (int k = 1 + ((first + i + j + 1 + colour) & 1); k <= n; k += 2) {
                    double around = AT(x, i - 1, j, k) + AT(x, i + 1, j, k) + AT(x, i, j - 1, k) + AT(x, i, j + 1, k)
                        + AT(x, i, j, k - 1) + AT(x, i, j, k + 1);
                    double rest = AT(b, i, j, k) - weight * (6.0 * AT(x, i, j, k) - around);
                    AT(x, i, j, k) += (k == 1 || k == n ? end : inner) * rest;
                }
            }
    }
}

static void residual(const Level *one, const double *x, const double *b) {
    int m = one->planes, n = one->n, w = n + 2;
    double weight = 1.0 / (one->h * one->h), *r = one->r;
    for (int i = 1; i <= m; i++)
        for (int j = 1; j <= n; j++)
            for (int k = 1; k <= n; k++) {
                double around = AT(x, i - 1, j, k) + AT(x, i + 1, j, k) + AT(x, i, j - 1, k) + AT(x, i, j + 1, k)
                    + AT(x, i, j, k - 1) + AT(x, i, j, k + 1);
                AT(r, i, j, k) = AT(b, i, j, k) - weight * (6.0 * AT(x, i, j, k) - around);
            }
}

static void restrict_to(const Level *half, const Level *one) {
    int m = half->planes, n = half->n, w = one->n + 2, v = n + 2;
    const double weights[4] = {0.25, 0.75, 0.75, 0.25}, *r = one->r;
    double *line = malloc(sizeof(double) * w);
    for (int i = 1; i <= m; i++)
        for (int j = 1; j <= n; j++) {
            memset(line, 0, sizeof(double) * w);
            for (int a = 0; a < 4; a++)
                for (int c = 0; c < 4; c++) {
                    double weight = 0.125 * weights[a] * weights[c];
                    for (int k = 0; k < w; k++) line[k] += weight * AT(r, 2 * i - 2 + a, 2 * j - 2 + c, k);
                }
            for (int k = 1; k <= n; k++)
                half->b[((size_t)i * v + j) * v + k] =
                    0.25 * (line[2 * k - 2] + line[2 * k + 1]) + 0.75 * (line[2 * k - 1] + line[2 * k]);
        }
    free(line);
}

static void prolong(const Level *one, const Level *half, double *x) {
    int m = one->planes, n = half->n, w = n + 2, v = one->n + 2;
    double *line = malloc(sizeof(double) * w);
    const double *c = half->x;
    for (int i = 1; i <= m; i++)
        for (int j = 1; j <= one->n; j++) {
            int a = (i + 1) / 2, b = (j + 1) / 2, d = i % 2 ? a - 1 : a + 1, e = j % 2 ? b - 1 : b + 1;
            for (int k = 0; k < w; k++)
                line[k] = 0.5625 * AT(c, a, b, k) + 0.1875 * (AT(c, a, e, k) + AT(c, d, b, k)) + 0.0625 * AT(c, d, e, k);
            double *row = x + ((size_t)i * v + j) * v;
            for (int k = 1; k <= n; k++) {
                row[2 * k - 1] += 0.75 * line[k] + 0.25 * line[k - 1];
                row[2 * k] += 0.75 * line[k] + 0.25 * line[k + 1];
            }
        }
    free(line);
}

static void cycle(int l, int first) {
    Level *one = &levels[l], *half = one + 1;
    if (l == count - 1) {
        for (int sweep = 0; sweep < 8; sweep++) relax(one, one->x, one->b, first);
        return;
    }
    relax(one, one->x, one->b, first);
    fill(one, one->x);
    residual(one, one->x, one->b);
    fill(one, one->r);
    restrict_to(half, one);
    memset(half->x, 0, sizeof(double) * (half->planes + 2) * (half->n + 2) * (half->n + 2));
    cycle(l + 1, first / 2);
    fill(half, half->x);
    prolong(one, half, one->x);
    relax(one, one->x, one->b, first);
}

/* Does a V-cycle, and returns the sum of the squares of the residual after it; `first` is the number of its first plane. */
double v_cycle(int first) {
    Level *one = &levels[0];
    int w = one->n + 2;
    double sum = 0.0;
    cycle(0, first);
    fill(one, one->x);
    residual(one, one->x, one->b);
    for (int i = 1; i <= one->planes; i++)
        for (int j = 1; j <= one->n; j++)
            for (int k = 1; k <= one->n; k++) sum += AT(one->r, i, j, k) * AT(one->r, i, j, k);
    return sum;
}
