/* Lets the sockets of the one process that loads it lie about what they took: of bytes that hold
 * the text in LYING_SOCKET_MARK, one more than there were. No reader of the answer expects that,
 * and Rust's panics. */
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
