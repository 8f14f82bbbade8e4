/*
** cusolver_routines.h - the routines of cusolver.c for one precision. cusolver.c includes this file
** once for each precision, with `real` defined as the type and P as the precision's letter in the
** names of the libraries' functions.
*/
#define PASTE_(a, b, c) a##b##c
#define PASTE(a, b, c) PASTE_(a, b, c)
#define SOLVER(name) PASTE(cusolverDn, P, name)
#define BLAS(name) PASTE(cublas, P, name)
#define NAMED(name) PASTE(name, _, P)
#define SIZE ((int64_t)sizeof(real))

static bool NAMED(potrf)(Session *s, int64_t batch, int n, real *a, int *info) {
  cusolverDnHandle_t h = s->h->solver;
  int size = 0;
  if (batch > 1) {
    real **at = pointers(s, a, (int64_t)n * n * SIZE, batch);
    return at && OK(SOLVER(potrfBatched)(h, LOWER, n, at, n, info, (int)batch));
  }
  TRY(SOLVER(potrf_bufferSize)(h, LOWER, n, a, n, &size));
  real *work = room(s, size * SIZE);
  return work && OK(SOLVER(potrf)(h, LOWER, n, a, n, work, size, info));
}

static bool NAMED(getrf)(Session *s, int64_t batch, int m, int n, real *a, int *pivots, int *info) {
  cusolverDnHandle_t h = s->h->solver;
  int size = 0, k = least(m, n);
  bool ok = true;
  if (batch > 1 && m == n && n <= SMALL) {
    real **at = pointers(s, a, (int64_t)n * n * SIZE, batch);
    return at && blas_workspace(s) &&
           OK(BLAS(getrfBatched)(s->h->blas, n, at, n, pivots, info, (int)batch));
  }
  TRY(SOLVER(getrf_bufferSize)(h, m, n, a, m, &size));
  real *work = room(s, size * SIZE);
  for (int64_t i = 0; work && ok && i < batch; i++)
    ok = OK(SOLVER(getrf)(h, m, n, a + i * m * n, m, work, pivots + i * k, info + i));
  return work && ok;
}

static bool NAMED(getrs)(Session *s, int64_t batch, int n, int nrhs, const real *a,
                         const int *pivots, real *b) {
  int64_t nn = (int64_t)n * n, nb = (int64_t)n * nrhs;
  bool ok = true;
  if (batch > 1 && n <= SMALL) {
    int info = 0;
    const real *const *at = pointers(s, a, nn * SIZE, batch);
    real **bt = at ? pointers(s, b, nb * SIZE, batch) : NULL;
    return bt && blas_workspace(s) &&
           OK(BLAS(getrsBatched)(s->h->blas, CUBLAS_OP_N, n, nrhs, at, n, pivots, bt, n, &info,
                                 (int)batch));
  }
  int *info = room(s, sizeof *info);
  for (int64_t i = 0; info && ok && i < batch; i++)
    ok = OK(SOLVER(getrs)(s->h->solver, CUBLAS_OP_N, n, nrhs, a + i * nn, n, pivots + i * n,
                          b + i * nb, n, info));
  return info && ok;
}

static bool NAMED(geqrf)(Session *s, int64_t batch, int m, int n, real *a, real *tau) {
  cusolverDnHandle_t h = s->h->solver;
  int size = 0, k = least(m, n);
  int64_t mn = (int64_t)m * n;
  bool ok = true;
  if (batch > 1 && most(m, n) <= SMALL) {
    int info = 0;
    real **at = pointers(s, a, mn * SIZE, batch);
    real **taus = at ? pointers(s, tau, k * SIZE, batch) : NULL;
    return taus && blas_workspace(s) &&
           OK(BLAS(geqrfBatched)(s->h->blas, m, n, at, m, taus, &info, (int)batch));
  }
  TRY(SOLVER(geqrf_bufferSize)(h, m, n, a, m, &size));
  real *work = room(s, size * SIZE);
  int *info = work ? room(s, sizeof *info) : NULL;
  for (int64_t i = 0; info && ok && i < batch; i++)
    ok = OK(SOLVER(geqrf)(h, m, n, a + i * mn, m, tau + i * k, work, size, info));
  return info && ok;
}

static bool NAMED(orgqr)(Session *s, int64_t batch, int m, int n, int k, real *a, const real *tau) {
  cusolverDnHandle_t h = s->h->solver;
  int size = 0;
  int64_t mn = (int64_t)m * n;
  bool ok = true;
  TRY(SOLVER(orgqr_bufferSize)(h, m, n, k, a, m, tau, &size));
  real *work = room(s, size * SIZE);
  int *info = work ? room(s, sizeof *info) : NULL;
  for (int64_t i = 0; info && ok && i < batch; i++)
    ok = OK(SOLVER(orgqr)(h, m, n, k, a + i * mn, m, tau + i * k, work, size, info));
  return info && ok;
}

static bool NAMED(syevd)(Session *s, bool vectors, bool upper, int64_t batch, int n, real *a,
                         real *w, int *info) {
  cusolverDnHandle_t h = s->h->solver;
  cusolverEigMode_t job = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  cublasFillMode_t part = upper ? CUBLAS_FILL_MODE_UPPER : LOWER;
  int size = 0, count = (int)batch;
  int64_t nn = (int64_t)n * n;
  bool ok = true, jacobi = batch > 1 && n <= JACOBI;
  if (!(jacobi ? OK(SOLVER(syevjBatched_bufferSize)(h, job, part, n, a, n, w, &size, s->h->syevj,
                                                    count))
               : OK(SOLVER(syevd_bufferSize)(h, job, part, n, a, n, w, &size))))
    return false;
  real *work = room(s, size * SIZE);
  if (work && jacobi)
    return OK(SOLVER(syevjBatched)(h, job, part, n, a, n, w, work, size, info, s->h->syevj, count));
  for (int64_t i = 0; work && ok && i < batch; i++)
    ok = OK(SOLVER(syevd)(h, job, part, n, a + i * nn, n, w + i * n, work, size, info + i));
  return work && ok;
}

/* Computes the singular values. Computes the singular vectors as the columns of u (m, uc) and v (n,
** vc). */
static bool NAMED(svd)(Session *s, char job, int64_t batch, int m, int n, real *a, real *sv,
                       real *u, real *v, int *info) {
  cusolverDnHandle_t h = s->h->solver;
  cusolverEigMode_t mode = job == 'N' ? CUSOLVER_EIG_MODE_NOVECTOR : CUSOLVER_EIG_MODE_VECTOR;
  int size = 0, count = (int)batch, k = least(m, n), econ = job != 'A';
  int uc = econ ? k : m, vc = econ ? k : n;
  gesvdjInfo_t params = s->h->gesvdj;
  bool ok = true, jacobi = batch > 1 && most(m, n) <= JACOBI && uc == m && vc == n;
  if (!(jacobi ? OK(SOLVER(gesvdjBatched_bufferSize)(h, mode, m, n, a, m, sv, u, m, v, n, &size,
                                                     params, count))
               : OK(SOLVER(gesvdj_bufferSize)(h, mode, econ, m, n, a, m, sv, u, m, v, n, &size,
                                              params))))
    return false;
  real *work = room(s, size * SIZE);
  if (work && jacobi)
    return OK(SOLVER(gesvdjBatched)(h, mode, m, n, a, m, sv, u, m, v, n, work, size, info, params,
                                    count));
  for (int64_t i = 0; work && ok && i < batch; i++)
    ok = OK(SOLVER(gesvdj)(h, mode, econ, m, n, a + i * m * n, m, sv + i * k, u + i * m * uc, m,
                           v + i * n * vc, n, work, size, info + i, params));
  return work && ok;
}

static bool NAMED(gesdd)(Session *s, char job, int64_t batch, int m, int n, real *a, real *sv,
                         real *u, real *vt, int *info) {
  int k = least(m, n), uc = job == 'A' ? m : k, vc = job == 'A' ? n : k;
  tl_DType dtype = sizeof(real) == 8 ? TL_F64 : TL_F32;
  real *v = room(s, batch * n * vc * SIZE);
  if (v && job == 'N') u = room(s, batch * m * uc * SIZE);
  return v && u && NAMED(svd)(s, job, batch, m, n, a, sv, u, v, info) &&
         (job == 'N' || cuda_linalg_transposes(s->cx, dtype, batch, n, vc, v, vt));
}

static bool NAMED(trsm)(Session *s, Triangle t, int64_t batch, int m, int n, const real *a,
                        real *b) {
  cublasHandle_t h = s->h->blas;
  int k = t.left ? m : n;
  int64_t kk = (int64_t)k * k, mn = (int64_t)m * n;
  real one = 1;
  bool ok = blas_workspace(s);
  if (ok && batch > 1 && k <= SMALL) {
    const real *const *at = pointers(s, a, kk * SIZE, batch);
    real **bt = at ? pointers(s, b, mn * SIZE, batch) : NULL;
    return bt && OK(BLAS(trsmBatched)(h, side_of(t), fill_of(t), op_of(t), diag_of(t), n, m, &one,
                                      at, k, bt, n, (int)batch));
  }
  for (int64_t i = 0; ok && i < batch; i++)
    ok = OK(BLAS(trsm_v2)(h, side_of(t), fill_of(t), op_of(t), diag_of(t), n, m, &one, a + i * kk,
                          k, b + i * mn, n));
  return ok;
}

#undef PASTE_
#undef PASTE
#undef SOLVER
#undef BLAS
#undef NAMED
#undef SIZE
