/* Runs a program and writes to a file which resources it and all its children used:
 *     measure FILE PROGRAM ARGUMENT...
 * FILE gets `status user+sys-seconds peak-RSS-bytes wall-seconds`.
 *
 * This is a separate program because Linux includes the memory of the forking process in the peak
 * of the child: measured from Python, no program would ever use less memory than Python. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t) { return t.tv_sec + t.tv_usec / 1e6; }

int main(int argc, char **argv)
{
    struct timespec start, end;
    struct rusage used;
    int status;
    if (argc < 3)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &start);
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &used) < 0) {
        perror("measure");
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    FILE *file = fopen(argv[1], "w");
    if (!file) {
        perror(argv[1]);
        return 2;
    }
    fprintf(file, "%d %.6f %ld %.6f\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            seconds(used.ru_utime) + seconds(used.ru_stime), used.ru_maxrss * 1024,
            (end.tv_sec - start.tv_sec) + (end.tv_nsec - start.tv_nsec) / 1e9);
    return fclose(file) != 0;
}
