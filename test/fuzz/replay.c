/* Runs a fuzz target without libFuzzer: every file of its corpus, then inputs mutated from them.
 *
 *   fuzz_NAME CORPUS [INPUT...]
 *
 * SHOAL_FUZZ_COUNT says how many (FUZZ_COUNT, see meson.build), SHOAL_FUZZ_SEED which (1). The
 * input that is being tried is kept in the file crash-TARGET in the current folder, which is left
 * behind when it ends the program: give it as INPUT to run it alone. An input may take ten seconds
 * and the memory that the target states. */
#include "fuzz.h"
#include "memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1 << 16, SEEDS = 256, PATIENCE = 10, SPARE = 8 };

typedef struct seed {
    uint8_t *data;
    size_t size;
} seed;

static seed seeds[SEEDS];
static size_t seed_count;
static uint64_t state;
static uint8_t *kept; /* the file of the input being tried: its size, then its bytes */

static uint64_t taken; /* inputs of which the decoder accepted anything */

uint64_t fuzz_accepted;

static uint64_t next(void) { /* xorshift64* */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545F4914F6CDD1D);
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static seed read_file(const char *path) {
    seed s = {.data = malloc(MOST)};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 || !s.data ? -1 : read(fd, s.data, MOST);
    if (n < 0) fail(path);
    close(fd);
    s.size = (size_t)n;
    return s;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void read_corpus(const char *folder) {
    char *names[SEEDS];
    size_t n = 0;
    DIR *dir = opendir(folder);
    if (!dir) fail(folder);
    for (struct dirent *entry; (entry = readdir(dir)) && n < SEEDS;)
        if (entry->d_name[0] != '.') names[n++] = strdup(entry->d_name);
    closedir(dir);
    qsort(names, n, sizeof *names, by_name); /* the order of a folder is nobody's promise */
    for (size_t i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        seeds[seed_count++] = read_file(path);
        free(names[i]);
    }
    if (!seed_count) {
        fprintf(stderr, "%s: no seeds\n", folder);
        exit(1);
    }
}

/* Numbers at which decoders go wrong. */
static const uint64_t edges[] = {0,          1,
                                 0x7f,       0x80,
                                 0xff,       0x7fff,
                                 0xffff,     0x7fffffff,
                                 0x80000000, 0xffffffff,
                                 INT64_MAX,  UINT64_C(1) << 63,
                                 UINT64_MAX, UINT64_MAX - 7};

static void overwrite(uint8_t *data, size_t size, size_t at) {
    uint64_t number =
        edges[next() % (sizeof edges / sizeof *edges)] + (next() % 4 ? 0 : next() % 3);
    size_t width = (size_t)1 << next() % 4;
    if (width > size - at) width = size - at;
    memcpy(data + at, &number, width);
}

/* Inserts bytes of this or another seed. */
static size_t splice(uint8_t *data, size_t size, size_t at) {
    const seed *from = &seeds[next() % seed_count];
    if (!from->size) return size;
    size_t start = next() % from->size, n = 1 + next() % 64;
    if (n > from->size - start) n = from->size - start;
    if (n > MOST - size) n = MOST - size;
    memmove(data + at + n, data + at, size - at);
    memcpy(data + at, from->data + start, n);
    return size + n;
}

static size_t mutate(uint8_t *data, size_t size) {
    for (uint64_t n = 1 + next() % 5; n > 0; n--) {
        if (!size) return splice(data, 0, 0);
        size_t at = next() % size, other = next() % size, length = 1 + next() % 16;
        if (length > size - at) length = size - at;
        if (length > size - other) length = size - other;
        switch (next() % 8) {
        case 0: data[at] = (uint8_t)next(); break;
        case 1: data[at] ^= (uint8_t)(1 << next() % 8); break;
        case 2: memmove(data + at, data + other, length); break;
        case 3: data[at] = (uint8_t) "0123456789-x<>(){}[]%#:,\"\\"[next() % 26]; break;
        case 4:
            memmove(data + at, data + at + length, size - at - length);
            size -= length;
            break;
        case 5: size = splice(data, size, at); break;
        case 6: overwrite(data, size, at); break;
        default:
            if (next() % 4 == 0) size = other + 1;
        }
    }
    return size;
}

/* At the end of a block of its own, so that a read past it shows. */
static void try(const uint8_t *data, size_t size) {
    memcpy(kept, &(uint64_t){size}, 8);
    memcpy(kept + 8, data, size);
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) fail("malloc");
    memcpy(exact, data, size);
    memory_limit(memory_bytes() + (int64_t)fuzz_limit(size));
    uint64_t before = fuzz_accepted;
    alarm(PATIENCE);
    LLVMFuzzerTestOneInput(exact, size);
    alarm(0);
    memory_limit(INT64_MAX);
    free(exact);
    taken += fuzz_accepted != before;
}

static void keep_input(const char *target) {
    char path[4096];
    const char *name = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
    snprintf(path, sizeof path, "crash-%s", name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, MOST + 8)) fail(path);
    kept = mmap(NULL, MOST + 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (kept == MAP_FAILED) fail(path);
    close(fd);
}

static void forget_input(const char *target) {
    char path[4096];
    const char *name = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
    snprintf(path, sizeof path, "crash-%s", name);
    unlink(path);
}

static uint64_t number(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "Usage: %s CORPUS [INPUT...]\n", argv[0]);
        return 2;
    }
    read_corpus(argv[1]);
    keep_input(argv[0]);
    for (int i = 2; i < argc; i++) { /* crash files start with their size */
        seed s = read_file(argv[i]);
        uint64_t size = 0;
        if (s.size >= 8) memcpy(&size, s.data, 8);
        if (strstr(argv[i], "crash-") && size <= s.size - 8)
            try(s.data + 8, (size_t)size);
        else
            try(s.data, s.size);
        free(s.data);
    }
    if (argc > 2) return 0;
    LLVMFuzzerTestOneInput(seeds[0].data, seeds[0].size); /* makes what is made once */
    for (size_t i = 0; i < seed_count; i++) try(seeds[i].data, seeds[i].size);
    int64_t held = memory_blocks();
    uint64_t of_seeds = taken, count = number("SHOAL_FUZZ_COUNT", FUZZ_COUNT);
    state = number("SHOAL_FUZZ_SEED", 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    taken = 0;
    uint8_t *data = malloc(MOST + 64);
    if (!data) fail("malloc");
    for (uint64_t i = 0; i < count; i++) {
        const seed *from = &seeds[next() % seed_count];
        memcpy(data, from->data, from->size);
        try(data, mutate(data, from->size));
    }
    free(data);
    bool leaks = memory_blocks() > held + SPARE;
    if (leaks)
        fprintf(stderr, "a leak: %zu blocks are held, %zu after the seeds\n", memory_blocks(),
                held);
    for (size_t i = 0; i < seed_count; i++) free(seeds[i].data);
    forget_input(argv[0]);
    printf("%llu of %zu seeds and %llu of %llu mutated inputs were taken\n",
           (unsigned long long)of_seeds, seed_count, (unsigned long long)taken,
           (unsigned long long)count);
    bool tries = count < 1000 || (taken && taken < count);
    if (!of_seeds || !tries) fputs("the inputs try nothing\n", stderr);
    return of_seeds && tries && !leaks ? 0 : 1;
}
