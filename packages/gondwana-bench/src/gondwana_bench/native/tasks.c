/* What tasks and channels are compared with: threads and tasks of OpenMP, a condition variable, a queue with a mutex,
   a process that is made for one call, and between two processes a condition variable and a flag.
   Each function does its work n times and returns the seconds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static _Atomic long ran;

static void *null(void *arg) {
    atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
    return arg;
}

long tasks_ran(void) { return atomic_exchange(&ran, 0); }

double threads_create_join(long n) {
    double start = now();
    for (long i = 0; i < n; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, null, NULL) == 0) pthread_join(thread, NULL);
    }
    return now() - start;
}

/* The clock stops while some are joined, which keeps the number of threads small. */
double threads_create(long n) {
    enum { TOGETHER = 64 };
    pthread_t threads[TOGETHER];
    double seconds = 0.0;
    for (long done = 0; done < n; done += TOGETHER) {
        long some = n - done < TOGETHER ? n - done : TOGETHER, made = 0;
        double start = now();
        while (made < some && pthread_create(&threads[made], NULL, null, NULL) == 0) made++;
        seconds += now() - start;
        for (long i = 0; i < made; i++) pthread_join(threads[i], NULL);
        if (made < some) return -1.0;
    }
    return seconds;
}

double forks(long n) {
    double start = now();
    for (long i = 0; i < n; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) _exit(0);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return -1.0;
    }
    return now() - start;
}

double openmp_tasks(long n) {
    double start = now();
    #pragma omp parallel
    #pragma omp single
    for (long i = 0; i < n; i++) {
        #pragma omp task
        null(NULL);
    }
    return now() - start;
}

/* Two threads that take turns: one switch is half a round. */
static pthread_mutex_t turn_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void take_turns(int me, long n) {
    pthread_mutex_lock(&turn_mutex);
    for (long i = 0; i < n; i++) {
        while (turn != me) pthread_cond_wait(&turn_changed, &turn_mutex);
        turn = 1 - me;
        pthread_cond_signal(&turn_changed);
    }
    pthread_mutex_unlock(&turn_mutex);
}

static void *other_side(void *n) {
    take_turns(1, *(long *)n);
    return NULL;
}

double condition_switches(long n) {
    pthread_t thread;
    long half = (n + 1) / 2;
    turn = 0;
    double start = now();
    if (pthread_create(&thread, NULL, other_side, &half)) return -1.0;
    take_turns(0, half);
    pthread_join(thread, NULL);
    return now() - start;
}

/* A queue in a ring that grows, behind a mutex. */
static pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
static long *items, capacity, head, count;

static void put(long item) {
    pthread_mutex_lock(&queue_mutex);
    if (count == capacity) {
        long wider = capacity ? 2 * capacity : 64, *moved = malloc(wider * sizeof *moved);
        for (long i = 0; i < count; i++) moved[i] = items[(head + i) % capacity];
        free(items);
        items = moved, capacity = wider, head = 0;
    }
    items[(head + count++) % capacity] = item;
    pthread_mutex_unlock(&queue_mutex);
}

static long take(void) {
    pthread_mutex_lock(&queue_mutex);
    long item = items[head];
    head = (head + 1) % capacity, count--;
    pthread_mutex_unlock(&queue_mutex);
    return item;
}

double queue_put(long n) {
    double start = now();
    for (long i = 0; i < n; i++) put(i);
    return now() - start;
}

double queue_take(long n) {
    long sum = 0;
    double start = now();
    for (long i = 0; i < n; i++) sum += take();
    double seconds = now() - start;
    return sum == n * (n - 1) / 2 ? seconds : -1.0;
}

/* Two processes, 0 and 1, that notify each other in memory which they share. */
struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    long turn;
    double notified; /* when; 0: not yet */
    _Alignas(64) _Atomic long flag;
};

long shared_nbytes(void) { return sizeof(struct shared); }

int shared_set_up(struct shared *s) {
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_mutexattr_init(&mutex);
    pthread_condattr_init(&condition);
    return pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED)
        || pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED)
        || pthread_mutex_init(&s->mutex, &mutex) || pthread_cond_init(&s->changed, &condition);
}

double shared_turns(struct shared *s, int me, long n) {
    double start = now();
    pthread_mutex_lock(&s->mutex);
    for (long i = 0; i < n; i++) {
        while (s->turn != me) pthread_cond_wait(&s->changed, &s->mutex);
        s->turn = 1 - me;
        pthread_cond_signal(&s->changed);
    }
    while (me == 0 && s->turn != me) pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
    return now() - start;
}

static void await_flag(struct shared *s, int me) {
    for (long polls = 1; atomic_load_explicit(&s->flag, memory_order_acquire) != me; polls++)
        if (polls % 1000 == 0) sched_yield(); /* the other may need this core */
}

double flag_turns(struct shared *s, int me, long n) {
    double start = now();
    for (long i = 0; i < n; i++) {
        await_flag(s, me);
        atomic_store_explicit(&s->flag, 1 - me, memory_order_release);
    }
    if (me == 0) await_flag(s, me);
    return now() - start;
}

void shared_notify(struct shared *s) {
    double start = now();
    pthread_mutex_lock(&s->mutex);
    s->notified = start;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

double shared_wait(struct shared *s) {
    pthread_mutex_lock(&s->mutex);
    while (s->notified == 0.0) pthread_cond_wait(&s->changed, &s->mutex);
    double seconds = now() - s->notified;
    s->notified = 0.0;
    pthread_mutex_unlock(&s->mutex);
    return seconds;
}
