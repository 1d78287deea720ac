/* Products of chosen rows with a few columns: what the greedy loop does most.
 *
 * A BLAS cannot skip rows, so rows would have to be copied together first, on one thread, which
 * costs as much as the product. Here eight rows at a time are read where they lie. What is read
 * of B (one panel of 8, 16 or 24 columns) stays in the cache; sums stay in registers.
 *
 * Compiled for several generations of processors; the loader of the system picks one.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(NO_CLONES)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define TUNED 1
#else
#define CLONES
#define TUNED 0
#endif
#define INLINE static inline __attribute__((always_inline))
#if defined(__GNUC__) && !defined(__clang__)
#define UNROLL _Pragma("GCC unroll 8")
#else
#define UNROLL
#endif
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLE __builtin_shufflevector
#endif
#endif
#define EACH(V) UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < V; v++)
/* An array is in memory here: no register is kept for it from before to after. */
#define IN_MEMORY(array) __asm__ volatile("" : "+m"(array))
/* Every job takes a list of integers: addresses, sizes, and last its piece of the work, lo..hi. */
#define AT(address) ((void *)(intptr_t)(address))

/* UNIT: columns that are multiplied with at once, at least; TILE: at most. */
enum { ROWS = 8, UNIT = 8, TILE = 3 * UNIT, TERMS = 64, LINE = 8 };

typedef double doubles __attribute__((vector_size(UNIT * sizeof(double))));
typedef int64_t integers __attribute__((vector_size(64)));
typedef int64_t four_integers __attribute__((vector_size(32)));

/* Of so many columns, how many are multiplied with next: three units at most, and none is left alone
 * where two and two will do, which takes less time. */
INLINE ptrdiff_t width_of(ptrdiff_t columns) {
    ptrdiff_t units = (columns + UNIT - 1) / UNIT;
    return UNIT * (units == 4 ? 2 : units < 3 ? units : 3);
}

/* Row r, column c becomes row c, column r. */
INLINE void transpose(four_integers *in) {
#ifdef SHUFFLE
    four_integers p = SHUFFLE(in[0], in[1], 0, 4, 1, 5), q = SHUFFLE(in[0], in[1], 2, 6, 3, 7);
    four_integers r = SHUFFLE(in[2], in[3], 0, 4, 1, 5), s = SHUFFLE(in[2], in[3], 2, 6, 3, 7);
    in[0] = SHUFFLE(p, r, 0, 1, 4, 5), in[1] = SHUFFLE(p, r, 2, 3, 6, 7);
    in[2] = SHUFFLE(q, s, 0, 1, 4, 5), in[3] = SHUFFLE(q, s, 2, 3, 6, 7);
#else
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < r; c++) {
            int64_t kept = in[r][c];
            in[r][c] = in[c][r];
            in[c][r] = kept;
        }
#endif
}

/* Corrections of unit vectors below this are formed in float: what is lost of them, their part 2^-20
 * or less, is far below eps. */
static const double SHORT = 0x1p-38;

/* Whether a squared residual r2 hides too much rounding, b2: it is then measured. limits: stop2, the
 * root of eps, and the error that residuals may have; see `Orthonormal._blurred`. */
INLINE int is_blurred(double r2, double b2, double unit, const double *limits) {
    double gap = r2 > limits[0] ? r2 - limits[0] : limits[0] - r2, r;
    if (b2 <= 0.0 || gap <= b2) return b2 > 0.0;
    if (b2 <= limits[1] * r2) return 0;
    r = __builtin_sqrt(r2);
    return b2 > 8.0 * unit * r && b2 > limits[2] * (2.0 * r - limits[2]);
}

/* Take captured2 off the squared residuals of `rows`, which have seen `s` directions now; `unit`
 * times a norm is the rounding that the difference hides. limits: those of `is_blurred`; *blurred
 * becomes 1 if any is, and marks[p] -1, unless they are NULL. */
static void downdate(const int64_t *rows, ptrdiff_t n, const double *captured2, const double *unit,
                     int32_t s, double *residual2, double *slack2, int32_t *stage,
                     const double *limits, int64_t *blurred, int32_t *marks) {
    enum { AHEAD = 24 }; /* another thread may have written to these last */
    int any = 0;
    for (ptrdiff_t p = 0; p < n; p++) {
        int64_t i = rows[p], later = rows[p + AHEAD < n ? p + AHEAD : p];
        __builtin_prefetch(residual2 + later, 1);
        __builtin_prefetch(slack2 + later, 1);
        __builtin_prefetch(stage + later, 1);
        __builtin_prefetch(unit + later);
        double before2 = residual2[i], left2 = before2 - captured2[p];
        if (slack2[i] == 0.0) slack2[i] = unit[i] * __builtin_sqrt(before2);
        residual2[i] = left2 > 0.0 ? left2 : 0.0;
        stage[i] = s;
        int blurs = is_blurred(residual2[i], slack2[i], unit[i], limits);
        if (blurs && marks) marks[p] = -1;
        any |= blurs;
    }
    if (any && blurred) __atomic_store_n(blurred, 1, __ATOMIC_RELAXED);
}

#define ROW double
#define REAL double
#define LANES 8
#define PAIR 1
#define NAME(x) x##_f64
#include "rows.inc"
#define TERM REAL
#include "combine.inc"
#include "sums.inc"
#include "sparse.inc"
#undef TERM
#undef ROW
#undef REAL
#undef LANES
#undef PAIR
#undef NAME

#define ROW float
#define REAL float
#define LANES 16
#define PAIR 2
#define NAME(x) x##_f32
#include "rows.inc"
#define TERM REAL
#include "combine.inc"
#include "sums.inc"
#include "sparse.inc"
#undef TERM
#undef REAL
#undef LANES
#undef PAIR
#undef NAME

#define MIXED /* rows of float, but every product and sum in double */
#define REAL double
#define PAIR 1
#define NAME(x) x##_mixed
#include "rows.inc"
#undef ROW
#undef REAL
#undef PAIR
#undef NAME

/* Rows of double, multiplied and summed in float: where all of it is a small correction. */
#define REAL double
#define TERM float
#define LANES 8
#define NAME(x) x##_short
#include "combine.inc"
#undef REAL
#undef TERM
#undef LANES
#undef NAME

/* Whether the products are compiled for the processor at hand, and not for the oldest one. */
int tuned(void) {
#if defined(__aarch64__)
    return 1;
#else
    return TUNED;
#endif
}

#include "bookkeeping.inc"
#include "threads.inc"

#define REAL double
#define NAME(x) x##_f64
#include "directions.inc"
#undef REAL
#undef NAME

#define REAL float
#define NAME(x) x##_f32
#include "directions.inc"
#undef REAL
#undef NAME

#include "state.inc"

#define ROW double
#define REAL double
#define NAME(x) x##_f64
#define OF_ROW(x) x##_f64
#define OF_REAL(x) x##_f64
#include "whole.inc"
#undef ROW
#undef NAME
#undef OF_ROW

#define ROW float
#define NAME(x) x##_mixed
#define OF_ROW(x) x##_f32
#include "whole.inc"
#undef REAL
#undef NAME
#undef OF_REAL

#define REAL float
#define NAME(x) x##_f32
#define OF_REAL(x) x##_f32
#include "whole.inc"
