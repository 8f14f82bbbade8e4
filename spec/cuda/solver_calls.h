/*
** solver_calls.h - the routines of solver.c for one precision. solver.c includes this file once for
** each precision, and first defines P (the letter in the routines' names), T (the C type) and DTYPE
** (the dtype).
*/
cusolverStatus_t SOLVER(potrf_bufferSize)(cusolverDnHandle_t h, cublasFillMode_t uplo, int n, T *a,
                                          int lda, int *size) {
  (void)uplo;
  *size = 3 * n + 7;
  return SOLVED(good("potrf_bufferSize", h, n, n, lda, a, sizeof *a));
}
cusolverStatus_t SOLVER(potrf)(cusolverDnHandle_t h, cublasFillMode_t uplo, int n, T *a, int lda,
                               T *work, int size, int *info) {
  static const char name[] = "potrf";
  tell("%s n=%d\n", name, n);
  Job job = JOB(run_potrf, .n = n, .a = a, .info = info, .work = work,
                .work_bytes = size * (int64_t)sizeof(T));
  return SOLVED(good(name, h, n, n, lda, a, sizeof *a) && IN_ORDER(lda, n) && aligned(info, 4) &&
                aligned(work, sizeof(T)) && size >= 3 * n + 7 && uplo == CUBLAS_FILL_MODE_LOWER &&
                put(h->stream, &job));
}
cusolverStatus_t SOLVER(potrfBatched)(cusolverDnHandle_t h, cublasFillMode_t uplo, int n, T *a[],
                                      int lda, int *info, int batch) {
  static const char name[] = "potrfBatched";
  tell("%s n=%d batch=%d\n", name, n, batch);
  Job job = JOB(run_potrf, .n = n, .a = a, .step_a = -1, .info = info, .batch = batch);
  return SOLVED(good(name, h, n, n, lda, a, sizeof *a) && IN_ORDER(lda, n) && aligned(info, 4) &&
                uplo == CUBLAS_FILL_MODE_LOWER && put(h->stream, &job));
}
cusolverStatus_t SOLVER(getrf_bufferSize)(cusolverDnHandle_t h, int m, int n, T *a, int lda,
                                          int *size) {
  *size = m + 2 * n + 5;
  return SOLVED(good("getrf_bufferSize", h, m, n, lda, a, sizeof *a));
}
cusolverStatus_t SOLVER(getrf)(cusolverDnHandle_t h, int m, int n, T *a, int lda, T *work,
                               int *pivots, int *info) {
  static const char name[] = "getrf";
  tell("%s m=%d n=%d\n", name, m, n);
  Job job = JOB(run_getrf, .m = m, .n = n, .a = a, .pivots = pivots, .info = info, .work = work,
                .work_bytes = (m + 2 * n + 5) * (int64_t)sizeof(T));
  return SOLVED(good(name, h, m, n, lda, a, sizeof *a) && IN_ORDER(lda, m) && aligned(info, 4) &&
                aligned(pivots, 4) && aligned(work, sizeof(T)) && put(h->stream, &job));
}
cusolverStatus_t SOLVER(getrs)(cusolverDnHandle_t h, cublasOperation_t trans, int n, int nrhs,
                               const T *a, int lda, const int *pivots, T *b, int ldb, int *info) {
  static const char name[] = "getrs";
  tell("%s n=%d nrhs=%d\n", name, n, nrhs);
  Job job = JOB(run_getrs, .n = n, .nrhs = nrhs, .a = (void *)(uintptr_t)a, .b = b,
                .pivots = (int *)(uintptr_t)pivots);
  return SOLVED(good(name, h, n, nrhs, lda, a, sizeof *a) &&
                good(name, h, n, nrhs, ldb, b, sizeof *b) && IN_ORDER(lda, n) && IN_ORDER(ldb, n) &&
                aligned(info, 4) && aligned(pivots, 4) && trans == CUBLAS_OP_N &&
                put(h->stream, &job));
}
cusolverStatus_t SOLVER(geqrf_bufferSize)(cusolverDnHandle_t h, int m, int n, T *a, int lda,
                                          int *size) {
  *size = 2 * m + n + 3;
  return SOLVED(good("geqrf_bufferSize", h, m, n, lda, a, sizeof *a));
}
cusolverStatus_t SOLVER(geqrf)(cusolverDnHandle_t h, int m, int n, T *a, int lda, T *tau, T *work,
                               int size, int *info) {
  static const char name[] = "geqrf";
  tell("%s m=%d n=%d\n", name, m, n);
  Job job = JOB(run_geqrf, .m = m, .n = n, .a = a, .b = tau, .work = work,
                .work_bytes = size * (int64_t)sizeof(T));
  return SOLVED(good(name, h, m, n, lda, a, sizeof *a) && IN_ORDER(lda, m) && aligned(info, 4) &&
                aligned(tau, sizeof(T)) && aligned(work, sizeof(T)) && size >= 2 * m + n + 3 &&
                put(h->stream, &job));
}
cusolverStatus_t SOLVER(orgqr_bufferSize)(cusolverDnHandle_t h, int m, int n, int k, const T *a,
                                          int lda, const T *tau, int *size) {
  *size = m + n + k + 9;
  return SOLVED(good("orgqr_bufferSize", h, m, n, lda, a, sizeof *a) && aligned(tau, sizeof(T)) &&
                n <= m && k <= n);
}
cusolverStatus_t SOLVER(orgqr)(cusolverDnHandle_t h, int m, int n, int k, T *a, int lda,
                               const T *tau, T *work, int size, int *info) {
  static const char name[] = "orgqr";
  tell("%s m=%d n=%d k=%d\n", name, m, n, k);
  Job job = JOB(run_orgqr, .m = m, .n = n, .k = k, .a = a, .b = (void *)(uintptr_t)tau,
                .work = work, .work_bytes = size * (int64_t)sizeof(T));
  return SOLVED(good(name, h, m, n, lda, a, sizeof *a) && IN_ORDER(lda, m) && aligned(info, 4) &&
                aligned(tau, sizeof(T)) && aligned(work, sizeof(T)) && size >= m + n + k + 9 &&
                n <= m && k <= n && put(h->stream, &job));
}
cusolverStatus_t SOLVER(syevd_bufferSize)(cusolverDnHandle_t h, cusolverEigMode_t mode,
                                          cublasFillMode_t uplo, int n, const T *a, int lda,
                                          const T *w, int *size) {
  (void)uplo;
  *size = (mode ? 2 : 1) * n * n + 11;
  return SOLVED(good("syevd_bufferSize", h, n, n, lda, a, sizeof *a) && aligned(w, sizeof(T)));
}
cusolverStatus_t SOLVER(syevd)(cusolverDnHandle_t h, cusolverEigMode_t mode, cublasFillMode_t uplo,
                               int n, T *a, int lda, T *w, T *work, int size, int *info) {
  static const char name[] = "syevd";
  tell("%s n=%d\n", name, n);
  Job job = JOB(run_syevd, .n = n, .a = a, .b = w, .vectors = mode,
                .upper = uplo == CUBLAS_FILL_MODE_UPPER, .info = info, .work = work,
                .work_bytes = size * (int64_t)sizeof(T));
  return SOLVED(good(name, h, n, n, lda, a, sizeof *a) && IN_ORDER(lda, n) && aligned(info, 4) &&
                aligned(w, sizeof(T)) && aligned(work, sizeof(T)) &&
                size >= (mode ? 2 : 1) * n * n + 11 && put(h->stream, &job));
}
cusolverStatus_t SOLVER(syevjBatched_bufferSize)(cusolverDnHandle_t h, cusolverEigMode_t mode,
                                                 cublasFillMode_t uplo, int n, const T *a, int lda,
                                                 const T *w, int *size, syevjInfo_t params,
                                                 int batch) {
  (void)mode, (void)uplo;
  *size = batch * n + 13;
  return SOLVED(good("syevjBatched_bufferSize", h && params, n, n, lda, a, sizeof *a) &&
                aligned(w, sizeof(T)));
}
cusolverStatus_t SOLVER(syevjBatched)(cusolverDnHandle_t h, cusolverEigMode_t mode,
                                      cublasFillMode_t uplo, int n, T *a, int lda, T *w, T *work,
                                      int size, int *info, syevjInfo_t params, int batch) {
  static const char name[] = "syevjBatched";
  tell("%s n=%d batch=%d\n", name, n, batch);
  Job job = JOB(run_syevd, .n = n, .a = a, .b = w, .batch = batch,
                .step_a = (int64_t)n * n * (int64_t)sizeof(T), .step_b = n * (int64_t)sizeof(T),
                .vectors = mode, .upper = uplo == CUBLAS_FILL_MODE_UPPER, .info = info,
                .work = work, .work_bytes = size * (int64_t)sizeof(T));
  return SOLVED(good(name, h && params, n, n, lda, a, sizeof *a) && IN_ORDER(lda, n) &&
                aligned(info, 4) && aligned(w, sizeof(T)) && aligned(work, sizeof(T)) &&
                size >= batch * n + 13 && n <= 32 && put(h->stream, &job));
}
cusolverStatus_t SOLVER(gesvdj_bufferSize)(cusolverDnHandle_t h, cusolverEigMode_t mode, int econ,
                                           int m, int n, const T *a, int lda, const T *s,
                                           const T *u, int ldu, const T *v, int ldv, int *size,
                                           gesvdjInfo_t params) {
  (void)mode, (void)econ;
  *size = 2 * m * n + 17;
  return SOLVED(good("gesvdj_bufferSize", h && params, m, n, lda, a, sizeof *a) &&
                aligned(s, sizeof(T)) && aligned(u, sizeof(T)) && aligned(v, sizeof(T)) &&
                ldu >= m && ldv >= n);
}
cusolverStatus_t SOLVER(gesvdj)(cusolverDnHandle_t h, cusolverEigMode_t mode, int econ, int m,
                                int n, T *a, int lda, T *s, T *u, int ldu, T *v, int ldv, T *work,
                                int size, int *info, gesvdjInfo_t params) {
  static const char name[] = "gesvdj";
  tell("%s m=%d n=%d econ=%d\n", name, m, n, econ);
  Job job =
      JOB(run_gesvdj, .m = m, .n = n, .a = a, .b = v, .s = s, .in = u, .job = econ ? 'S' : 'A',
          .vectors = mode, .info = info, .work = work, .work_bytes = size * (int64_t)sizeof(T));
  return SOLVED(good(name, h && params, m, n, lda, a, sizeof *a) && IN_ORDER(lda, m) &&
                IN_ORDER(ldu, m) && IN_ORDER(ldv, n) && aligned(info, 4) && aligned(s, sizeof(T)) &&
                aligned(u, sizeof(T)) && aligned(v, sizeof(T)) && aligned(work, sizeof(T)) &&
                size >= 2 * m * n + 17 && put(h->stream, &job));
}
cusolverStatus_t SOLVER(gesvdjBatched_bufferSize)(cusolverDnHandle_t h, cusolverEigMode_t mode,
                                                  int m, int n, const T *a, int lda, const T *s,
                                                  const T *u, int ldu, const T *v, int ldv,
                                                  int *size, gesvdjInfo_t params, int batch) {
  (void)mode;
  *size = batch * m + n + 19;
  return SOLVED(good("gesvdjBatched_bufferSize", h && params, m, n, lda, a, sizeof *a) &&
                aligned(s, sizeof(T)) && aligned(u, sizeof(T)) && aligned(v, sizeof(T)) &&
                ldu >= m && ldv >= n);
}
cusolverStatus_t SOLVER(gesvdjBatched)(cusolverDnHandle_t h, cusolverEigMode_t mode, int m, int n,
                                       T *a, int lda, T *s, T *u, int ldu, T *v, int ldv, T *work,
                                       int size, int *info, gesvdjInfo_t params, int batch) {
  static const char name[] = "gesvdjBatched";
  tell("%s m=%d n=%d batch=%d\n", name, m, n, batch);
  Job job = JOB(run_gesvdj, .m = m, .n = n, .a = a, .b = v, .s = s, .in = u, .job = 'A',
                .batch = batch, .step_a = (int64_t)m * n * (int64_t)sizeof(T),
                .step_b = (int64_t)n * n * (int64_t)sizeof(T), .vectors = mode, .info = info,
                .work = work, .work_bytes = size * (int64_t)sizeof(T));
  return SOLVED(good(name, h && params, m, n, lda, a, sizeof *a) && IN_ORDER(lda, m) &&
                IN_ORDER(ldu, m) && IN_ORDER(ldv, n) && aligned(info, 4) && aligned(s, sizeof(T)) &&
                aligned(u, sizeof(T)) && aligned(v, sizeof(T)) && aligned(work, sizeof(T)) &&
                size >= batch * m + n + 19 && m <= 32 && n <= 32 && put(h->stream, &job));
}
cublasStatus_t BLAS(getrfBatched)(cublasHandle_t h, int n, T *const a[], int lda, int *pivots,
                                  int *info, int batch) {
  static const char name[] = "getrfBatched";
  tell("%s n=%d batch=%d\n", name, n, batch);
  Job job = JOB(run_getrf, .m = n, .n = n, .a = (void *)(uintptr_t)a, .step_a = -1, .batch = batch,
                .pivots = pivots, .info = info);
  return MULTIPLIED(blas_good(name, h, n, n, lda, a) && IN_ORDER(lda, n) && aligned(pivots, 4) &&
                    aligned(info, 4) && put(h->stream, &job));
}
cublasStatus_t BLAS(getrsBatched)(cublasHandle_t h, cublasOperation_t trans, int n, int nrhs,
                                  const T *const a[], int lda, const int *pivots, T *const b[],
                                  int ldb, int *host_info, int batch) {
  static const char name[] = "getrsBatched";
  tell("%s n=%d nrhs=%d batch=%d\n", name, n, nrhs, batch);
  *host_info = 0;
  Job job =
      JOB(run_getrs, .n = n, .nrhs = nrhs, .a = (void *)(uintptr_t)a, .b = (void *)(uintptr_t)b,
          .step_a = -1, .step_b = -1, .batch = batch, .pivots = (int *)(uintptr_t)pivots);
  return MULTIPLIED(blas_good(name, h, n, nrhs, lda, a) && blas_good(name, h, n, nrhs, ldb, b) &&
                    IN_ORDER(lda, n) && IN_ORDER(ldb, n) && aligned(pivots, 4) &&
                    trans == CUBLAS_OP_N && put(h->stream, &job));
}
cublasStatus_t BLAS(geqrfBatched)(cublasHandle_t h, int m, int n, T *const a[], int lda,
                                  T *const tau[], int *host_info, int batch) {
  static const char name[] = "geqrfBatched";
  tell("%s m=%d n=%d batch=%d\n", name, m, n, batch);
  *host_info = 0;
  Job job = JOB(run_geqrf, .m = m, .n = n, .a = (void *)(uintptr_t)a, .b = (void *)(uintptr_t)tau,
                .step_a = -1, .step_b = -1, .batch = batch);
  return MULTIPLIED(blas_good(name, h, m, n, lda, a) && IN_ORDER(lda, m) &&
                    aligned(tau, sizeof *tau) && put(h->stream, &job));
}
cublasStatus_t BLAS(trsm_v2)(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t uplo,
                             cublasOperation_t trans, cublasDiagType_t diag, int m, int n,
                             const T *alpha, const T *a, int lda, T *b, int ldb) {
  static const char name[] = "trsm";
  int k = side == CUBLAS_SIDE_LEFT ? m : n;
  tell("%s m=%d n=%d\n", name, m, n);
  Job job = JOB(run_trsm, .m = m, .n = n, .a = (void *)(uintptr_t)a, .b = b,
                .left = side == CUBLAS_SIDE_LEFT, .upper = uplo == CUBLAS_FILL_MODE_UPPER,
                .transpose = trans == CUBLAS_OP_T, .unit = diag == CUBLAS_DIAG_UNIT);
  return MULTIPLIED(good(name, h && h->workspace, k, k, lda, a, sizeof(T)) &&
                    good(name, h, m, n, ldb, b, sizeof(T)) && IN_ORDER(lda, k) &&
                    IN_ORDER(ldb, m) && *alpha == 1 && put(h->stream, &job));
}
cublasStatus_t BLAS(trsmBatched)(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t uplo,
                                 cublasOperation_t trans, cublasDiagType_t diag, int m, int n,
                                 const T *alpha, const T *const a[], int lda, T *const b[], int ldb,
                                 int batch) {
  static const char name[] = "trsmBatched";
  int k = side == CUBLAS_SIDE_LEFT ? m : n;
  tell("%s m=%d n=%d batch=%d\n", name, m, n, batch);
  Job job = JOB(run_trsm, .m = m, .n = n, .a = (void *)(uintptr_t)a, .b = (void *)(uintptr_t)b,
                .step_a = -1, .step_b = -1, .batch = batch, .left = side == CUBLAS_SIDE_LEFT,
                .upper = uplo == CUBLAS_FILL_MODE_UPPER, .transpose = trans == CUBLAS_OP_T,
                .unit = diag == CUBLAS_DIAG_UNIT);
  return MULTIPLIED(blas_good(name, h, k, k, lda, a) && blas_good(name, h, m, n, ldb, b) &&
                    IN_ORDER(lda, k) && IN_ORDER(ldb, m) && *alpha == 1 && put(h->stream, &job));
}

#undef P
#undef T
#undef DTYPE
