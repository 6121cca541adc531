/* Recursive calls as a C programmer writes them, in a loop and in a thread made for each.
   `n` has two equal numbers, of which calls take one each: a compiler that saw one number would call once. */
#include <pthread.h>

static long fibonacci(long n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

/* The sum of the results of all calls. */
long fibonacci_calls(const long *n, long calls)
{
    long sum = 0;
    for (long i = 0; i < calls; i++)
        sum += fibonacci(n[i & 1]);
    return sum;
}

static void *run(void *n)
{
    return (void *)fibonacci(*(const long *)n);
}

/* The same with a new thread for each call; a thread that cannot be made adds nothing. */
long fibonacci_threads(const long *n, long calls)
{
    long sum = 0;
    for (long i = 0; i < calls; i++) {
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, run, (void *)&n[i & 1]) == 0 && pthread_join(thread, &result) == 0)
            sum += (long)result;
    }
    return sum;
}
