/* A cable between two TAP devices on which each frame takes a given time: ./delayed_cable NAME NAME MICROSECONDS
   Stands in for `tc netem delay` on kernels without sch_netem. The devices are made here; who runs this moves them
   into network namespaces after the line "ready". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 1024, LONGEST = 65600 };

struct queue {
    long long due[FRAMES];
    int length[FRAMES];
    unsigned first, end;
    char (*frames)[LONGEST];
};

static int device(const char *name)
{
    struct ifreq request = {0};
    int file = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (file < 0 || ioctl(file, TUNSETIFF, &request) < 0) {
        perror(name);
        exit(1);
    }
    return file;
}

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int count, char **words)
{
    struct queue queues[2] = {0};
    struct pollfd files[2];
    if (count != 4)
        return 2;
    long long delay = atoll(words[3]) * 1000;
    for (int i = 0; i < 2; i++) {
        files[i] = (struct pollfd){device(words[1 + i]), POLLIN, 0};
        queues[i].frames = malloc(sizeof(char[FRAMES][LONGEST]));
    }
    prctl(PR_SET_TIMERSLACK, 1L);
    puts("ready");
    fflush(stdout);
    for (;;) {
        long long next = -1;
        for (int i = 0; i < 2; i++) {
            struct queue *q = &queues[i];
            for (; q->first != q->end && q->due[q->first % FRAMES] <= now(); q->first++) {
                /* A frame that a device cannot take is lost, as on any cable. */
                ssize_t done = write(files[1 - i].fd, q->frames[q->first % FRAMES], q->length[q->first % FRAMES]);
                (void)done;
            }
            if (q->first != q->end && (next < 0 || q->due[q->first % FRAMES] < next))
                next = q->due[q->first % FRAMES];
            files[i].events = q->end - q->first < FRAMES ? POLLIN : 0;
        }
        long long rest = next < 0 ? 0 : next - now();
        rest = rest < 0 ? 0 : rest;
        struct timespec wait = {rest / 1000000000, rest % 1000000000};
        if (ppoll(files, 2, next < 0 ? NULL : &wait, NULL) < 0)
            return 1;
        for (int i = 0; i < 2; i++) {
            struct queue *q = &queues[i];
            while (files[i].revents & POLLIN && q->end - q->first < FRAMES) {
                int slot = q->end % FRAMES;
                ssize_t length = read(files[i].fd, q->frames[slot], LONGEST);
                if (length <= 0)
                    break;
                q->length[slot] = (int)length;
                q->due[slot] = now() + delay;
                q->end++;
            }
        }
    }
}
