-- maths.lua - Torch7's mathematical functions and methods. Each is declared with the tlua operator
-- that computes it.

local torch = require "tlua"
local types = require "tlua.torch7.types"
local op = require "tlua.torch7.dispatch".op

local T, field, methods = torch, types.field, types.methods
local linalg = torch.linalg

local in_place <const> = {in_place = true}
local plain <const> = {results = 0}
local two <const> = {results = 2}

local function dims(x) return #field(x, "shape") end

local function shape(x) return field(x, "shape") end

local function item(x) return methods.item(x) end

local function is_float(x) return T.is_floating_point(x) end

-- Elementwise -----------------------------------------------------------------------------------

-- Torch7's functions of one tensor. `name=other` means that tlua's operator for `name` is called
-- `other`. `!` marks functions that Torch7 defines only for floating-point tensors.
local unary = [[abs sign acos! asin! atan! ceil cos! cosh! exp! floor log! log1p! frac! neg round
   rsqrt! sin! sinh! sigmoid! sqrt! tan! tanh! trunc cinv=reciprocal! erf! erfinv! lgamma!
   digamma!]]
for word in unary:gmatch "%S+" do
   local name, theirs, of_floats = word:match "^(%w+)=?(%w*)(!?)$"
   if theirs == "" then theirs = name end
   local fn, changing = T[theirs], T[theirs .. "_"]
   local function check(x)
      if of_floats ~= "" and not is_float(x) then
         torch.raise(("torch.%s: expected a tensor of floating-point numbers, got a %sTensor")
            :format(name, types.kind_of(x).name))
      end
   end
   op(name, {T = {function(x)
      check(x)
      return fn(x)
   end, function(x)
      check(x)
      if is_float(x) then return changing(x) end
      return methods.copy_(x, fn(x))
   end}}, in_place)
end

-- Reshapes tensor b to the shape of the tensor `like`. Raises an error if the numbers of elements
-- differ.
local function shaped(name, b, like)
   if not T.is_tensor(b) or T.is_same_size(like, b) then return b end
   if methods.numel(like) ~= methods.numel(b) then
      torch.raise(("torch.%s: expected tensors of as many elements, got %d and %d"):format(name,
         methods.numel(like), methods.numel(b)))
   end
   return T.reshape(b, shape(like))
end

-- Wraps a function of two tensors so that the second argument may also be a number, or a tensor of
-- another shape with the same number of elements.
local function by_elements(name, fn)
   return function(a, b) return fn(a, shaped(name, b, a)) end
end

local function scaled(name, fn, sign)
   return function(a, n, b) return fn(a, shaped(name, b, a), {alpha = sign * n}) end
end

local function sums(name, fn, fn_, sign)
   return {Tn = {fn, fn_}, TT = {by_elements(name, fn), by_elements(name, fn_)},
      TnT = {scaled(name, T.add, sign), scaled(name, T.add_, sign)}}
end
op("add", sums("add", T.add, T.add_, 1), in_place)
op("csub", sums("csub", T.sub, T.sub_, -1), in_place)
-- The tensor's method `sub` returns a part of the tensor in Torch7, so this operator declares no
-- method.
op("sub", sums("sub", T.sub, T.sub_, -1), {in_place = true, method = false})

-- Divides two numbers as C does, so that the quotient of two integers is truncated.
local function divide(a, b)
   if is_float(a) then return T.div(a, b) end
   return T.div(a, b, {rounding_mode = "trunc"})
end

op("mul", {Tn = {T.mul, T.mul_}}, in_place)
op("div", {Tn = divide}, in_place)
op("cmul", {TT = {by_elements("cmul", T.mul), by_elements("cmul", T.mul_)}}, in_place)
op("cdiv", {TT = by_elements("cdiv", divide)}, in_place)
op("pow", {Tn = T.pow, nT = T.pow}, in_place)
op("cpow", {TT = by_elements("cpow", T.pow)}, in_place)
op("atan2", {TT = by_elements("atan2", T.atan2)}, in_place)
op("fmod", {Tn = T.fmod}, in_place)
op("cfmod", {TT = by_elements("cfmod", T.fmod)}, in_place)
op("remainder mod", {Tn = T.remainder}, in_place)
op("cremainder cmod", {TT = by_elements("cremainder", T.remainder)}, in_place)
op("lerp", {TTn = T.lerp}, in_place)
op("bitand", {Tn = T.bitwise_and}, in_place)
op("bitor", {Tn = T.bitwise_or}, in_place)
op("bitxor", {Tn = T.bitwise_xor}, in_place)
op("lshift", {Tn = T.bitwise_left_shift}, in_place)
op("rshift", {Tn = T.bitwise_right_shift}, in_place)
op("cbitand", {TT = T.bitwise_and}, in_place)
op("cbitor", {TT = T.bitwise_or}, in_place)
op("cbitxor", {TT = T.bitwise_xor}, in_place)
op("clshift", {TT = T.bitwise_left_shift}, in_place)
op("crshift", {TT = T.bitwise_right_shift}, in_place)

op("clamp", {Tnn = {function(x, low, high) return T.clamp(x, low, high) end,
   function(x, low, high) return T.clamp_(x, low, high) end}}, in_place)
op("cmax", {TT = by_elements("cmax", T.maximum), Tn = function(x, n) return T.clamp(x, n) end},
   in_place)
op("cmin", {TT = by_elements("cmin", T.minimum),
   Tn = function(x, n) return T.clamp(x, nil, n) end}, in_place)

local function fused(name, fn)
   return {
      TnTT = function(x, n, a, b)
         return fn(x, shaped(name, a, x), shaped(name, b, x), {value = n})
      end,
      TTT = function(x, a, b) return fn(x, shaped(name, a, x), shaped(name, b, x)) end,
   }
end
op("addcmul", fused("addcmul", T.addcmul), in_place)
op("addcdiv", fused("addcdiv", T.addcdiv), in_place)

-- Comparisons return ByteTensors.
for _, name in ipairs {"lt", "le", "gt", "ge", "eq", "ne"} do
   op(name, {Tn = T[name], TT = by_elements(name, T[name])})
end

local function as_mask(fn)
   return function(x) return item(fn(T.ne(x, 0))) end
end
op("all", {T = as_mask(T.all)}, plain)
op("any", {T = as_mask(T.any)}, plain)
op("equal", {TT = function(a, b) return T.equal(a, b) end}, plain)
op("isnan", {T = T.isnan})

-- Products --------------------------------------------------------------------------------------

-- Declares a function such as addmm, which returns beta * x + alpha * product(a, b). The arguments
-- are ([res,] [beta,] x, [alpha,] a, b).
local function adding(name, product)
   op(name, {
      TTT = function(x, a, b) return T.add(x, product(a, b)) end,
      TnTT = function(x, n, a, b) return T.add(x, product(a, b), {alpha = n}) end,
      nTTT = function(m, x, a, b) return T.add(T.mul(x, m), product(a, b)) end,
      nTnTT = function(m, x, n, a, b)
         return T.add(T.mul(x, m), product(a, b), {alpha = n})
      end,
   }, {method = false})
   -- the method is called as x:addmm([beta,] [x,] [alpha,] a, b), and changes x
   types.Tensor[name] = function(x, ...)
      local arguments, tensors = {...}, 0
      for i = 1, #arguments do tensors = tensors + (T.is_tensor(arguments[i]) and 1 or 0) end
      local at = 1
      local beta, source, alpha = 1, x, 1
      if type(arguments[at]) == "number" then
         if tensors == 3 or #arguments == tensors + 2 then
            beta, at = arguments[at], at + 1
         end
      end
      if tensors == 3 then source, at = arguments[at], at + 1 end
      if type(arguments[at]) == "number" then alpha, at = arguments[at], at + 1 end
      local a, b = arguments[at], arguments[at + 1]
      if not (T.is_tensor(a) and T.is_tensor(b)) or #arguments > at + 1 then
         torch.raise(("%s: expected ([beta,] [x,] [alpha,] a, b), with tensors a and b"):format(
            name))
      end
      local sum = beta == 0 and T.mul(product(a, b), alpha)
         or T.add(beta == 1 and source or T.mul(source, beta), product(a, b), {alpha = alpha})
      return require "tlua.torch7.dispatch".store(x, sum)
   end
end

op("dot", {TT = function(a, b)
   return item(T.sum(T.mul(T.flatten(a), shaped("dist", T.flatten(b), T.flatten(a)))))
end}, plain)
op("mv", {TT = T.mv})
op("mm", {TT = T.mm})
op("bmm", {TT = T.bmm})
op("ger", {TT = T.outer})
adding("addmv", T.mv)
adding("addmm", T.mm)
adding("addr", T.outer)
adding("baddbmm", T.bmm)
adding("addbmm", function(a, b) return T.sum(T.bmm(a, b), 1) end)
op("cross", {TTn = T.cross, TT = function(a, b)
   for d, size in ipairs(shape(a)) do
      if size == 3 then return T.cross(a, b, d) end
   end
   torch.raise "torch.cross: expected a dimension of size 3"
end})

-- Reductions --------------------------------------------------------------------------------------

local function keep(fn) return function(x, d) return fn(x, d, {keepdim = true}) end end

-- Wraps a function so that the result has the type of the input. For example, a sum of bytes is a
-- byte.
local function as_input(fn)
   return function(x, ...) return methods.to(fn(x, ...), field(x, "dtype")) end
end

local function total(fn)
   return function(x) return item(fn(x)) end
end

op("sum", {T = total(T.sum), Tn = as_input(keep(T.sum))})
op("prod", {T = total(T.prod), Tn = as_input(keep(T.prod))})
op("mean", {T = total(T.mean), Tn = keep(T.mean)})
op("cumsum", {T = as_input(function(x) return T.cumsum(x, 1) end), Tn = as_input(T.cumsum)})
op("cumprod", {T = as_input(function(x) return T.cumprod(x, 1) end), Tn = as_input(T.cumprod)})
op("max", {T = total(T.max), Tn = keep(T.max)}, two)
op("min", {T = total(T.min), Tn = keep(T.min)}, two)
op("median", {T = total(T.median), Tn = keep(T.median)}, two)
op("mode", {T = function(x) return T.mode(x, -1, {keepdim = true}) end, Tn = keep(T.mode)}, two)
op("kthvalue", {
   Tn = function(x, k) return T.kthvalue(x, k, -1, {keepdim = true}) end,
   Tnn = function(x, k, d) return T.kthvalue(x, k, d, {keepdim = true}) end,
}, two)
local function topk(x, k, d, largest, sorted)
   return T.topk(x, k or 1, d or dims(x), {largest = largest == true, sorted = sorted == true})
end
op("topk", {["T Tn Tnn Tnnb Tnnbb"] = topk}, two)
local function sort(x, d, descending)
   if type(d) == "boolean" then d, descending = nil, d end
   return T.sort(x, d or dims(x), {descending = descending == true})
end
op("sort", {["T Tn Tb Tnb"] = sort}, two)

-- Returns the forms in which a function such as `var` is called. An argument `flag` chooses the
-- divisor: n - 1 by default, n if the flag is true.
local function spread(fn)
   return {
      T = function(x) return item(fn(x)) end, Tb = function(x, flag)
         return item(fn(x, nil, {correction = flag and 0 or 1}))
      end,
      ["Tn Tnb"] = function(x, d, flag)
         return fn(x, d, {correction = flag and 0 or 1, keepdim = true})
      end,
   }
end
op("std", spread(T.std))
op("var", spread(T.var))

local function norm(x, p) return linalg.vector_norm(x, p or 2) end
op("norm", {["T Tn"] = function(x, p) return item(norm(x, p)) end,
   Tnn = function(x, p, d) return linalg.vector_norm(x, p, d, {keepdim = true}) end})
op("dist", {["TT TTn"] = function(a, b, p) return item(norm(T.sub(a, b), p)) end}, plain)
op("renorm", {Tnnn = T.renorm}, in_place)
op("trace", {T = total(T.trace)}, plain)
op("numel", {T = function(x) return methods.numel(x) end}, plain)

local function histogram(x, bins, low, high)
   low, high = low or 0, high or 0
   return T.histc(methods.to(x, "float64"), bins or 100, low, high)
end
op("histc", {["T Tn Tnn Tnnn"] = function(x, ...)
   return methods.to(histogram(x, ...), field(x, "dtype"))
end})
op("bhistc", {["T Tn Tnn Tnnn"] = function(x, ...)
   local rows = T.reshape(x, {shape(x)[1], -1})
   local list = {}
   for i = 1, shape(rows)[1] do list[i] = histogram(T.select(rows, 1, i), ...) end
   return methods.to(T.stack(list), field(x, "dtype"))
end})

-- Rearrangement
-- -------------------------------------------------------------------------------------

op("diag", {T = T.diag, Tn = T.diag})
op("tril", {T = T.tril, Tn = T.tril})
op("triu", {T = T.triu, Tn = T.triu})
op("reshape", {TL = function(x, sizes) return T.reshape(T.clone(x),
   types.sizes("reshape", sizes)) end,
   ["Tn Tnn Tnnn Tnnnn Tnnnnn"] = function(x, ...)
      return T.reshape(T.clone(x), types.sizes("reshape", ...))
   end})

local function not_empty(list)
   local kept = {}
   for _, x in ipairs(list) do
      if methods.numel(x) > 0 then kept[#kept + 1] = x end
   end
   return #kept > 0 and kept or {list[1]}
end

local function join(list, d)
   list = not_empty(list)
   return T.cat(list, d and d > 0 and d or dims(list[1]))
end
op("cat", {
   TT = function(a, b) return join({a, b}) end, TTn = function(a, b, d) return join({a, b}, d) end,
}, {results = 0})

-- Decompositions
-- --------------------------------------------------------------------------------------

local function column(x) return dims(x) == 1 and T.unsqueeze(x, 2) or x end

op("gesv", {TT = function(b, a)
   return linalg.solve(a, column(b)), linalg.lu_factor(a)
end}, two)
-- gels solves the least-squares problem a x = b, as LAPACK's gels does. If there are more equations
-- than unknowns, further rows follow the solution in the first result. The sum of their squares in
-- a column is the squared error of this column. The second result is the factorization of a.
op("gels", {TT = function(b, a)
   b = column(b)
   local m, n = table.unpack(field(a, "shape"))
   if #field(a, "shape") ~= 2 or #field(b, "shape") ~= 2 or field(b, "shape")[1] ~= m then
      T.raise(("torch.gels: expected a matrix b and a matrix a of as many rows, got sizes {%s} and "
         .. "{%s}"):format(table.concat(field(b, "shape"), ", "), table.concat(field(a, "shape"),
         ", ")))
   end
   local factors, tau = T.geqrf(m < n and T.t(a) or a)
   local triangle = T.triu(T.narrow(factors, 1, 1, math.min(m, n)))
   local zero = T.nonzero(T.eq(T.diag(triangle), 0))
   if methods.numel(zero) > 0 then
      T.raise(("torch.gels: the matrix has no full rank: element %d of the diagonal of its "
         .. "triangular factor is 0"):format(methods.item(zero[1])))
   end
   if m < n then return linalg.lstsq(a, b), T.t(factors) end
   local turned = T.ormqr(factors, tau, b, true, true)
   local solution = linalg.solve_triangular(triangle, T.narrow(turned, 1, 1, n), {upper = true})
   return m == n and solution or T.cat({solution, T.narrow(turned, 1, n + 1, m - n)}, 1), factors
end}, two)
op("trtrs", {["TT TTs TTss TTsss"] = function(b, a, uplo, trans, diag)
   local upper = (uplo or "U") == "U"
   local m = upper and T.triu(a) or T.tril(a)
   if trans == "T" then m, upper = T.t(m), not upper end
   return linalg.solve_triangular(m, column(b), {upper = upper, unitriangular = diag == "U"}),
      T.clone(a)
end}, two)
op("potrf", {["T Ts"] = function(x, uplo)
   local l = linalg.cholesky(uplo == "L" and x or T.t(x))
   return uplo == "L" and l or T.t(l)
end})
op("potrs", {["TT TTs"] = function(b, factor, uplo)
   return T.cholesky_solve(column(b), factor, {upper = uplo ~= "L"})
end})
op("potri", {["T Ts"] = function(factor, uplo) return T.cholesky_inverse(factor,
   {upper = uplo ~= "L"}) end})
op("inverse", {T = T.inverse})
op("symeig", {["T Ts Tss"] = function(x, want, uplo)
   local values, vectors = linalg.eigh(x, uplo or "U")
   return values, want == "V" and vectors
      or T.empty(0, {dtype = field(x, "dtype"), device = field(x, "device")})
end}, two)
-- eig returns each eigenvalue as a row with its real and imaginary part. The eigenvectors are
-- columns. For a pair of complex eigenvalues, two columns hold the real and the imaginary part of
-- the first one's eigenvector, as in LAPACK's geev.
op("eig", {["T Ts"] = function(x, want)
   if want ~= nil and want ~= "N" and want ~= "V" then
      torch.raise(("torch.eig: expected \"N\" or \"V\", got %s"):format(want))
   end
   local place = {dtype = field(x, "dtype"), device = field(x, "device")}
   if want ~= "V" then return T.clone(T.view_as_real(linalg.eigvals(x))), T.empty(0, place) end
   local values, vectors = linalg.eig(x)
   local second = T.lt(T.imag(values), 0)
   return T.clone(T.view_as_real(values)),
      T.where(second, T.neg(T.imag(vectors)), T.real(vectors))
end}, two)
op("qr", {T = linalg.qr}, two)
op("geqrf", {T = T.geqrf}, two)
op("orgqr", {TT = linalg.householder_product})
op("ormqr", {["TTT TTTs TTTss"] = function(a, tau, c, side, trans)
   return T.ormqr(a, tau, c, {left = side ~= "R", transpose = trans == "T"})
end})
op("svd", {["T Ts"] = function(x, job)
   local u, s, vh = linalg.svd(x, {full_matrices = job == "A"})
   return u, s, T.t(vh)
end}, {results = 3})
op("btrifact", {T = linalg.lu_factor}, two)
op("btrisolve", {TTT = function(b, lu, pivots)
   return T.squeeze(linalg.lu_solve(lu, pivots, T.unsqueeze(b, -1)), -1)
end})

-- pstrf computes the Cholesky factor of a symmetric positive semidefinite matrix with complete
-- pivoting: in each step, the largest remaining diagonal element becomes the pivot.
op("pstrf", {["T Ts"] = function(x, uplo)
   local n, a = shape(x)[1], methods.tolist(x)
   local l, order = {}, {}
   for i = 1, n do
      order[i], l[i] = i, {}
      for j = 1, n do l[i][j] = 0.0 end
   end
   for k = 1, n do
      local best = k
      for i = k + 1, n do
         if a[order[i]][order[i]] > a[order[best]][order[best]] then best = i end
      end
      order[k], order[best], l[k], l[best] = order[best], order[k], l[best], l[k]
      local pivot = a[order[k]][order[k]]
      if pivot <= 1e-14 * n then break end
      l[k][k] = math.sqrt(pivot)
      for i = k + 1, n do l[i][k] = a[order[i]][order[k]] / l[k][k] end
      for i = k + 1, n do
         for j = k + 1, n do
            a[order[i]][order[j]] = a[order[i]][order[j]] - l[i][k] * l[j][k]
         end
      end
   end
   local device = field(x, "device")
   local factor = T.tensor(l, {dtype = field(x, "dtype"), device = device})
   return uplo == "L" and factor or T.t(factor), T.tensor(order, {dtype = "int32", device = device})
end}, two)

-- Convolutions
-- --------------------------------------------------------------------------------------

local function reversed(x, n)
   local spatial = {}
   for d = 1, n do spatial[d] = -d end
   return T.flip(x, spatial)
end

-- Returns the padding for a mode of convolution. In mode "V" the kernel stays inside the image, and
-- in mode "F" it may reach over the borders as long as one element overlaps.
local function padding_of(fname, mode, kernel, n)
   if mode == nil or mode == "V" then return 0 end
   if mode ~= "F" then
      torch.raise(("torch.%s: expected the mode V or F, got %s"):format(fname, tostring(mode)))
   end
   local padding, size = {}, shape(kernel)
   for d = 1, n do padding[d] = size[#size - n + d] - 1 end
   return padding
end

-- Returns a function that computes the convolution of an image or volume with one or more kernels.
-- Let `spatial` be the sizes of the image, and p and k numbers of planes. Three combinations of
-- shapes are possible: (spatial) with (spatial), (p, spatial) with (spatial) or (p, spatial), and
-- (p, spatial) with (k, p, spatial). If `flip` is false, the function computes a cross-correlation.
local function convolve(fname, n, flip)
   local conv = T["conv" .. n .. "d"]
   return function(x, kernel, mode)
      if flip then kernel = reversed(kernel, n) end
      local padding = padding_of(fname, mode, kernel, n)
      local xs, ks = dims(x) - n, dims(kernel) - n
      if xs == 1 and ks == 2 then
         return T.squeeze(conv(T.unsqueeze(x, 1), kernel, nil, 1, padding), 1)
      elseif xs > 1 or ks > 1 or ks > xs then
         torch.raise(("torch.%s: expected planes (p, ...) with kernels (k, p, ...), or one of each")
            :format(fname))
      end
      local planes = xs == 1 and x or T.unsqueeze(x, 1)
      local p = shape(planes)[1]
      local each = kernel
      if ks == 0 then
         local sizes = shape(kernel)
         table.insert(sizes, 1, p)
         each = methods.expand(T.unsqueeze(kernel, 1), sizes)
      end
      local made = T.squeeze(conv(T.unsqueeze(planes, 1), T.unsqueeze(each, 2), nil, 1, padding, 1,
         p), 1)
      return xs == 1 and made or T.squeeze(made, 1)
   end
end
for n = 2, 3 do
   op("conv" .. n, {["TT TTs"] = convolve("conv" .. n, n, true)})
   op("xcorr" .. n, {["TT TTs"] = convolve("xcorr" .. n, n, false)})
end
