-- Lists the intended differences from PyTorch 2.15. A row applies to calls of the operators `ops`, or of all operators
-- if `ops` is nil. The fault, tag and dtype of the call must match the row's patterns. If PyTorch refuses the call, its
-- message must match the pattern `refused`. The first row that matches is used. Rows with `device` are differences
-- between the CPU and another device.

local DTYPES <const> = "dtypes, or mixes of them, that PyTorch's kernels refuse"
local EMPTY <const> = "empty, 0-d or strided input that PyTorch refuses"
local MIXED <const> = "two dtypes are promoted, in PyTorch the result has the first one's"
local FIRST <const> = "what floats are made of decides, not the way there"
local NONE <const> = "PyTorch reads elements that are not there"
local DERIVATIVES <const> = "derivatives that PyTorch's operators lack for a layout"
local PARTS <const> = "sparse tensors consist of dense ones, whose operators are recorded"
local LAYOUTS <const> = "layouts and batches that PyTorch's CPU lacks"
local LAPACK <const> = [[linalg.qr linalg.svd linalg.eigh linalg.inv linalg.det linalg.slogdet linalg.cond linalg.pinv
   linalg.solve linalg.solve_ex linalg.solve_triangular linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve
   linalg.cholesky linalg.cholesky_ex linalg.lstsq linalg.matrix_rank linalg.norm norm linalg.matrix_norm linalg.inv_ex
   linalg.svdvals linalg.eigvalsh linalg.tensorsolve linalg.tensorinv cholesky_solve cholesky_inverse logdet pinverse
   std std_mean svd qr linalg.eig linalg.eigvals geqrf lu]]
local BESSEL <const> = "special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1"
local POLYNOMIALS <const> = [[special.chebyshev_polynomial_t special.chebyshev_polynomial_u
   special.chebyshev_polynomial_v special.chebyshev_polynomial_w special.hermite_polynomial_h
   special.hermite_polynomial_he special.laguerre_polynomial_l special.legendre_polynomial_p
   special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
   special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w]]
local POOLS <const> = [[nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
   nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d
   nn.functional.adaptive_max_pool3d]]

return {
   -- The following rows are for calls that tlua accepts but PyTorch refuses.
   {fault = "^no error", refused = "not implemented for", why = DTYPES},
   {fault = "^no error", refused = "must be Tensor, not", why = "a number where PyTorch wants a tensor"},
   {ops = "linspace logspace", fault = "^no error", refused = "combination", why = "a whole float as a count"},
   {ops = "pow xlogy special.xlog1py special.zeta " .. POLYNOMIALS, fault = "^no error",
      refused = "combination", why = "numbers alone"},
   {ops = "__radd__ __rmul__ __rand__ __ror__ __rxor__ __rdiv__", fault = "^no error", tag = "refused", why = DTYPES},
   {ops = "gradient", fault = "^no error", refused = "same length", why = "one spacing for all dimensions, in a list"},
   {ops = POOLS, fault = "^no error", refused = "%-1", why = "-1 for PyTorch's None, which no list of Lua can hold"},
   {fault = "^no error", refused = "derivative for .* is not implemented", why = "a gradient that PyTorch refuses"},
   {ops = "linalg.eig", fault = "^no error", refused = "are specified up to",
      why = "the error comes with the gradient"},
   {fault = "^no error", refused = "[Tt]ype", why = DTYPES},
   {fault = "^no error", refused = "[Bb]ool", why = DTYPES},
   {fault = "^no error", tag = "first", why = DTYPES},
   {fault = "^no error", tag = "rows0", why = EMPTY},
   {fault = "^no error", tag = "columns0", why = EMPTY},
   {fault = "^no error", tag = "scalar", why = EMPTY},
   {fault = "^no error", refused = "view size is not compatible", why = EMPTY},
   {fault = "^no error", refused = "contiguous", why = EMPTY},

   {fault = "^no error", tag = "sparse", refused = "Could not run", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "unsupported", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "not supported", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "not implemented", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "expected Sparse.* layout", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "do not have", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "tensor layout but got", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "to be of format CSR", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "layout must be SparseCsr", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "INTERNAL ASSERT FAILED", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "MKL Sparse doesn't support", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "no view exists", why = LAYOUTS},
   {fault = "^no error", tag = "sparse", refused = "batch dimensions to be non%-zero", why = LAYOUTS},
   {ops = "add", fault = "^no error", tag = "sparse", refused = "MKL error", why = LAYOUTS},
   {ops = "add", fault = "^no error", tag = "sparse", refused = "expected values to have", why = LAYOUTS},
   {fault = "^no error", tag = "gradient.* sparse", refused = "Sparse division requires", why = DERIVATIVES},
   {fault = "^no error", tag = "sparse.* gradient", refused = "op2%-sparse addition", why = DERIVATIVES},
   {fault = "^no error", tag = "sparse.* gradient", refused = "memory format option", why = DERIVATIVES},
   {fault = "^no error", tag = "sparse.* gradient", refused = "Sparse division requires", why = DERIVATIVES},
   {ops = "add", fault = "^harness: .*sparse_compressed_tensor: ", tag = "sparse",
      why = "PyTorch's result has components of shapes that do not fit one another"},

   -- The following rows are for calls that tlua refuses.
   {fault = "expected a Tensor, got [%-%d]", why = "numbers alone are left to Lua"},
   {fault = "share memory", why = "no write to elements that share memory"},
   {ops = "addbmm", fault = "does not fit self", why = "no change of shape in place"},
   {ops = "median nanmedian", fault = "at least one element", why = "nothing has no median"},
   {ops = "__getitem__", fault = "does not lie inside", why = "ranges lie inside their dimension"},
   {ops = "nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout",
      fault = "got %[%]", tag = "scalar", why = "channels need dimensions"},
   {ops = POOLS, fault = "not empty", why = "nothing has no mean"},
   {fault = "expected a floating", tag = "first32", why = "empty tensors of integers are integers all the same"},
   {fault = "expected float32 or float64", tag = "first32",
    why = "empty tensors of integers are integers all the same"},
   {ops = "lu_unpack", fault = "int32", tag = "first32", why = "factors are floats"},
   {ops = "linalg.solve_triangular cdist", fault = "one dtype", tag = "first64", why = "both of one dtype"},
   {ops = "linalg.cond linalg.matrix_rank linalg.pinv", fault = "^error", tag = "s0",
      why = "no matrices without rows where they must be square"},
   {ops = "repeat_interleave", fault = "output_size", tag = "rows0", why = "output_size is checked"},
   {ops = "nn.functional.embedding nn.functional.nll_loss", fault = "^error", tag = "s0",
      why = "no position in an empty dimension, even one that is ignored"},

   {ops = "sparse.softmax sparse.log_softmax", fault = "expected floating numbers", tag = "more",
      why = "complex numbers have no softmax, even where there are none"},
   {ops = "softmax log_softmax", fault = "does not take complex", why = "imaginary parts are not dropped"},
   {ops = "diagonal_scatter", fault = "values of dtype complex", why = "imaginary parts are not dropped"},
   {ops = "nn.functional.rms_norm", fault = "does not take complex", tag = "first64", why = DTYPES},

   -- values
   {ops = "logcumsumexp", fault = "^value", dtype = "complex",
      why = "logarithms of complex numbers are determined up to multiples of 2 pi i"},
   {ops = "igamma igammac", fault = "^value", why = "NaN gives NaN, whatever the other is"},
   {ops = "clamp clamp_min clamp_max clip fmax fmin", fault = "^gradient: value", tag = "gradient",
      why = "gradients at the bounds go to self, as in PyTorch until 2.14"},
   {ops = "quantile nanquantile", fault = "^gradient: value", tag = "expanded",
      why = "equal elements stay in order, so the gradient goes to others of them"},
   {ops = LAPACK, fault = "", tag = "expanded", why = "all rows are equal, so that rounding decides"},
   {ops = "logspace matrix_exp nn.functional.grid_sample nn.functional.multilabel_soft_margin_loss "
      .. "nn.functional.poisson_nll_loss", fault = "value", dtype = "float16",
    why = "half types are computed otherwise"},
   {fault = "^gradient: value", dtype = "float16", why = "PyTorch rounds to half types elsewhere"},
   {ops = "nn.functional.interpolate", fault = "^value", dtype = "uint8",
      why = "bytes are averaged in float32 and rounded once"},
   {ops = "polygamma", fault = "^value", why = "infinite at poles"},
   {ops = "special.airy_ai", fault = "^value",
      why = "PyTorch's is off by 1e-5 at -501, where SciPy agrees with tlua"},
   {ops = BESSEL, fault = "value",
      why = "PyTorch's are off by up to 2e-7 from 4 on, in float64 too, and no numbers at infinity"},
   {ops = POLYNOMIALS, fault = "^value", dtype = "int64",
      why = "PyTorch's degrees of 55 and 127 are off, or no numbers, as their terms leave float32"},
   {ops = "nn.functional.pixel_unshuffle", fault = "^shape", tag = "s0", why = "empty images shrink too"},
   {ops = "nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss nn.functional.cross_entropy",
      fault = "^value", tag = "s0", why = NONE},
   {ops = "median nanmedian masked.median", fault = "^value", tag = "expanded", why = NONE},
   {ops = "addmv", fault = "^shape", tag = "columns0", why = "self is broadcast even if there is nothing to add"},
   {ops = "as_strided_scatter", fault = "^gradient: value", why = "what is written over has no gradient"},
   {ops = "nn.functional.softsign", fault = "^value", tag = "first32", why = "the least integer has no magnitude"},

   -- dtypes
   {ops = "nn.functional.binary_cross_entropy_with_logits", fault = "^dtype", tag = "first64", why = MIXED},
   {ops = "nn.functional.linear_cross_entropy", fault = "^dtype", dtype = "float16",
      why = "the loss of half types is float32"},
   {ops = "nn.functional.hinge_embedding_loss", fault = "^dtype", why = MIXED},
   {ops = "__rdiv__ trapezoid trapz", fault = "^dtype", why = FIRST},
   {ops = "masked.argmax masked.argmin", fault = "^dtype",
      why = "positions are int64, in PyTorch of the input's dtype"},
   {ops = "masked.logsumexp", fault = "^dtype", why = "integers have a logarithm of float32, which PyTorch cuts"},
   {ops = "masked.std masked.var", fault = "^dtype", dtype = "complex",
      why = "variances of complex numbers are real, as torch.var's"},

   -- The following rows are for graph nodes that have other names in PyTorch.
   {ops = "conj_physical", fault = "^node: ",
      why = "the conjugate of real numbers is a copy, not the tensor itself"},
   {ops = "sparse.sampled_addmm sparse.mm to_sparse", fault = "^node: ", why = PARTS},
   {fault = "^node: ", tag = "sparse", why = PARTS},
   {ops = "fft.fft2 fft.fftn fft.ifft fft.ifft2 fft.ifftn", fault = "^node: FftR2CBackward",
      why = "real numbers are made complex inside the transform"},
   {ops = "fft.ihfft fft.ihfft2 fft.ihfftn", fault = "^node: ConjPhysical", why = "conjugates are written to memory"},
   {ops = "stft", fault = "^gradient: value", tag = "expanded",
      why = "PyTorch shares a gradient out among elements that share memory"},
   {ops = "__rdiv__ __rsub__ vdot unsafe_chunk unsafe_split linalg.vecdot", fault = "^node: ",
    why = "a name of an operator whose node has that one's"},
   {ops = "masked.prod masked.sum masked.var", fault = "^node: ",
      why = "a sum over nothing is a copy, not a reduction"},
   {ops = "linalg.slogdet linalg.lstsq linalg.householder_product normal __getitem__ sum_to_size chain_matmul "
      .. "nn.functional.dropout3d nn.functional.local_response_norm", fault = "^node: .*false",
    why = "no node for what changes nothing, or is constant"},
   {ops = "nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout "
      .. "nn.functional.feature_alpha_dropout nn.functional.rms_norm nn.functional.scaled_dot_product_attention "
      .. "nn.functional.linear_cross_entropy", fault = "^node: ",
    why = "one node, as PyTorch has it on GPUs, or another last one of several"},
   {ops = [[linalg.cond linalg.matrix_norm linalg.matrix_power linalg.multi_dot linalg.norm linalg.tensorinv
      nn.functional.smooth_l1_loss nn.functional.adaptive_avg_pool3d nn.functional.fractional_max_pool2d
      nn.functional.fractional_max_pool3d nn.functional.group_norm nn.functional.linear __getitem__ __rmatmul__
      __setitem__ atleast_2d atleast_3d cartesian_prod cdist chain_matmul conj corrcoef cumulative_trapezoid diag diff
      einsum gradient kron logdet matmul trapezoid trapz var]], fault = "^node: ",
    why = "it is made of other operators than in PyTorch, and ends with another one"},

   -- The following rows are for differences between the CPU and another device.
   {device = true, fault = "^order of checks", why = "a device looks at positions after everything else was checked"},
   {device = true, ops = "linspace logspace", fault = "^message",
    why = "a tensor as a number is read, for which a device would have to be waited for"},
}
