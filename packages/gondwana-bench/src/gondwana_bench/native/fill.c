/* Initialisation of an array by threads of a process, as a C programmer writes it: by OpenMP, and by threads that are
   made for it and have a part each. */
#include <pthread.h>
#include <stdlib.h>

void fill_openmp(double *a, long n, double value, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (long i = 0; i < n; i++)
        a[i] = value;
}

struct part {
    pthread_t thread;
    double *first, *last, value;
};

static void *fill_part(void *argument)
{
    const struct part *part = argument;
    const double value = part->value;
    for (double *at = part->first, *last = part->last; at < last; at++)
        *at = value;
    return NULL;
}

/* The calling thread fills the first part. Returns 0, or what is wrong if a thread cannot be made. */
int fill_threads(double *a, long n, double value, int threads)
{
    struct part *parts = malloc(threads * sizeof *parts);
    int made = 1, wrong = parts == NULL;
    for (int i = 0; !wrong && i < threads; i++)
        parts[i] = (struct part){0, a + n * i / threads, a + n * (i + 1) / threads, value};
    for (; !wrong && made < threads; made += !wrong)
        wrong = pthread_create(&parts[made].thread, NULL, fill_part, &parts[made]);
    if (!wrong)
        fill_part(&parts[0]);
    for (int i = 1; parts != NULL && i < made; i++)
        pthread_join(parts[i].thread, NULL);
    free(parts);
    return wrong;
}
