/* FFTW in place of the transforms of NPB's FT, so that the same library transforms on both sides of `gondwana bench npb`.
 *
 * Not part of our benchmark: the guide says how it is linked to the official program, without cffts1, cffts2 and cffts3.
 * Each of them transforms the lines of an array x(d1,d2,d3) along one axis into xout, which may be x: by planes, as the
 * original. `is` is 1 or -1, the sign of the exponent. */
#include <complex.h>
#include <stdio.h>
#include <stdlib.h>

typedef double complex Complex;
typedef struct fftw_plan_s *Plan;

/* FFTW's interface, so that its headers are not needed: the wheel of pyfftw has none. */
extern Plan fftw_plan_many_dft(int rank, const int *n, int lines, Complex *from, const int *, int stride, int distance,
                               Complex *to, const int *, int to_stride, int to_distance, int sign, unsigned flags);
extern void fftw_execute_dft(Plan plan, Complex *from, Complex *to);

/* Lines that are transformed together, and plans of them: by sign, then into other arrays or in place. */
typedef struct {
    int points, lines, stride, distance;
    Plan plans[2][2];
} Lines;

/* All plans of lines are made when the first is wanted, which is in the benchmark's warm-up. FFTW tries its algorithms
 * (flag 0, FFTW_MEASURE) on arrays of its own, since that destroys their elements. */
static void make_plans(Lines *made)
{
    const size_t length = (size_t)(made->points - 1) * made->stride + (size_t)(made->lines - 1) * made->distance + 1;
    Complex *one = calloc(length, sizeof *one), *other = calloc(length, sizeof *other);
    for (int sign = 0; sign < 2; sign++)
        for (int in_place = 0; in_place < 2; in_place++) {
            Complex *to = in_place ? one : other;
            Plan plan = one == NULL || other == NULL ? NULL :
                fftw_plan_many_dft(1, &made->points, made->lines, one, NULL, made->stride, made->distance,
                                   to, NULL, made->stride, made->distance, sign ? 1 : -1, 0);
            if (plan == NULL) {
                fprintf(stderr, "FFTW has no plan of %d lines of %d points\n", made->lines, made->points);
                exit(1);
            }
            made->plans[sign][in_place] = plan;
        }
    free(one);
    free(other);
}

static const Lines *planned(int points, int lines, int stride, int distance)
{
    static Lines known[8]; /* FT has three layouts at most */
    Lines *found = known;
    while (found->points != 0 && (found->points != points || found->lines != lines || found->stride != stride ||
                                  found->distance != distance))
        if (++found == known + sizeof known / sizeof *known)
            abort();
    if (found->points == 0) {
        *found = (Lines){points, lines, stride, distance, {{NULL}}};
        make_plans(found);
    }
    return found;
}

static void transform(int is, int times, size_t apart, const Lines *lines, Complex *x, Complex *xout)
{
    const Plan plan = lines->plans[is == 1][x == xout];
    for (int i = 0; i < times; i++)
        fftw_execute_dft(plan, x + i * apart, xout + i * apart);
}

void cffts1_(const int *is, const int *d1, const int *d2, const int *d3, Complex *x, Complex *xout, Complex *y)
{
    transform(*is, *d3, (size_t)*d1 * *d2, planned(*d1, *d2, 1, *d1), x, xout);
}

void cffts2_(const int *is, const int *d1, const int *d2, const int *d3, Complex *x, Complex *xout, Complex *y)
{
    transform(*is, *d3, (size_t)*d1 * *d2, planned(*d2, *d1, *d1, 1), x, xout);
}

void cffts3_(const int *is, const int *d1, const int *d2, const int *d3, Complex *x, Complex *xout, Complex *y)
{
    transform(*is, *d2, *d1, planned(*d3, *d1, *d1 * *d2, 1), x, xout);
}
