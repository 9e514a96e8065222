/* Lets the sockets of the one process that loads it lie: of bytes that hold the text in
 * LYING_SOCKET_MARK they took one more than there were, and with the text in LYING_SOCKET_READ_MARK
 * they filled one more than there was room for. No reader of the answer expects that, and Rust's
 * panics. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t send(int socket, const void *bytes, size_t length, int flags)
{
    ssize_t taken = syscall(SYS_sendto, socket, bytes, length, flags, NULL, 0);
    const char *mark = getenv("LYING_SOCKET_MARK");
    if (mark && taken == (ssize_t)length && memmem(bytes, length, mark, strlen(mark)))
        taken++;
    return taken;
}

ssize_t recv(int socket, void *bytes, size_t length, int flags)
{
    ssize_t filled = syscall(SYS_recvfrom, socket, bytes, length, flags, NULL, NULL);
    const char *mark = getenv("LYING_SOCKET_READ_MARK");
    if (mark && filled > 0 && memmem(bytes, filled, mark, strlen(mark)))
        filled = length + 1;
    return filled;
}
