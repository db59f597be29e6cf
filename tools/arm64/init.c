/* The only process of the emulated machine besides recado: mounts what a program expects, brings the loopback interface
 * up, runs /recado with the arguments that the kernel passed on, says how it ended, and powers off. */

#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void mount_or_say(const char *type, const char *where)
{
    if (mount(type, where, type, 0, NULL) != 0)
        perror(where);
}

static void loopback_up(void)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) != 0)
        perror("lo");
    close(fd);
}

static long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void run_recado(char **argv)
{
    long long started_ms = now_ms();
    int status = 0;
    pid_t child = fork(), ended;

    if (child == 0) {
        execv("/recado", argv);
        perror("/recado");
        _exit(127);
    }
    do /* init inherits orphans too: wait until it is recado that ended */
        ended = wait(&status);
    while (ended >= 0 && ended != child);
    if (WIFSIGNALED(status))
        printf("init: recado was ended by signal %d\n", WTERMSIG(status));
    else
        printf("init: recado exited with %d\n", WEXITSTATUS(status));
    printf("init: booted in %lld ms, ran for %lld ms\n", started_ms, now_ms() - started_ms);
}

int main(int argc, char **argv)
{
    (void)argc;
    mount_or_say("proc", "/proc");
    mount_or_say("sysfs", "/sys");
    mount_or_say("devtmpfs", "/dev");
    mount_or_say("tmpfs", "/tmp");
    loopback_up();
    argv[0] = "recado";
    run_recado(argv);
    fflush(stdout);
    sync();
    return reboot(RB_POWER_OFF);
}
