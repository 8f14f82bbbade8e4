-- parametrizations.lua - torch.nn.utils.parametrizations: parametrizations (see parametrize.lua)
-- that keep a weight orthogonal, keep its spectral norm at 1, or split it into length and
-- direction.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local Module = require "tlua.nn.modules.Module"
local norms = require "tlua.nn.utils.norms"
local parametrize = require "tlua.nn.utils.parametrize"

local M = {}

-- Returns the tensor of a module that has the name `name`. Raises an error if there is none.
local function weight_of(title, module, name)
   if not class.isinstance(module, Module) then
      args.refuse(title, "module", "a module", module)
   end
   local weight = module[name]
   if not torch.is_tensor(weight) then
      torch.raise(("%s: %s has no parameter or buffer %s"):format(title, torch.type(module), name))
   end
   return weight
end

-- Orthogonal ----------------------------------------------------------------------------------

local Orthogonal = class.class("nn._Orthogonal", Module)

-- Returns the first columns, (n, k), of the product H_1 ... H_k of reflections H_i = I - tau_i v_i
-- v_i^T. v_i is column i of A with a one in row i and zeros above.
local function householder_product(A, tau)
   local n, k = A:size(-2), A:size(-1)
   local V = A + torch.eye(n, k, {dtype = A.dtype, device = A.device})
   local Q = torch.eye(n, k, {dtype = A.dtype, device = A.device})
   for i = k, 1, -1 do
      local v = V:narrow(-1, i, 1)
      Q = Q - tau:narrow(-1, i, 1):unsqueeze(-1) * v:matmul(v.mT:matmul(Q))
   end
   return Q
end

-- Computes LAPACK's geqrf for (..., n, k), n >= k: returns the reflections below the diagonal, R on
-- and above it, and tau (..., k).
local function geqrf(A)
   A = A:clone()
   local n, k = A:size(-2), A:size(-1)
   local taus = {}
   for i = 1, k do
      local rest = A:narrow(-2, i, n - i + 1):narrow(-1, i, k - i + 1)
      local x = rest:narrow(-1, 1, 1)
      local alpha = x:narrow(-2, 1, 1)
      local below = n > i and x:narrow(-2, 2, n - i):abs():amax(-2, true):gt(0)
         or torch.zeros_like(alpha):bool()
      local norm = torch.linalg.vector_norm(x, 2, -2, {keepdim = true})
      local beta = torch.where(alpha:ge(0), -norm, norm)
      local tau = torch.where(below, (beta - alpha) / beta, torch.zeros_like(alpha))
      local scale = torch.where(below, 1 / (alpha - beta), torch.zeros_like(alpha))
      local v = x * scale
      v:narrow(-2, 1, 1):fill_(1)
      local reflected = rest - tau * v:matmul(v.mT:matmul(rest))
      rest:copy_(reflected)
      if n > i then x:narrow(-2, 2, n - i):copy_(v:narrow(-2, 2, n - i)) end
      taus[i] = tau:squeeze(-1)
   end
   return A, torch.cat(taus, -1)
end

-- Returns the orthogonal factor Q of the QR decomposition of A. The signs of its columns are chosen
-- so that R has a nonnegative diagonal.
local function make_orthogonal(A)
   local Q, R = torch.linalg.qr(A)
   return Q * R:diagonal(0, -2, -1):sgn():unsqueeze(-2)
end

local function is_orthogonal(Q)
   local k = Q:size(-1)
   local Id = torch.eye(k, {dtype = Q.dtype, device = Q.device})
   local eps = 10 * Q:size(-2) * torch.finfo(Q.dtype).eps
   return torch.allclose(Q.mT:matmul(Q), Id:expand_as(Q.mT:matmul(Q)), {atol = eps})
end

function Orthogonal:__init(weight, map, trivial)
   Module.__init(self)
   self.shape, self.orthogonal_map, self.trivial = weight.shape, map, trivial
   -- Without use_trivialization, no inverse is known for matrix_exp and cayley, so a matrix cannot
   -- be assigned.
   if not trivial and map ~= "householder" then self.right_inverse = false end
end

-- Returns the orthogonal (n, k) matrix that the map `map` makes from X, which has at least as many
-- rows as columns.
local function of_skew_symmetric(X, map)
   local n, k = X:size(-2), X:size(-1)
   X = X:tril()
   if n ~= k then
      local shape = X.shape
      shape[#shape] = n - k
      X = torch.cat({X, X:new_zeros(shape)}, -1)
   end
   local A = X - X.mT
   local Q
   if map == "matrix_exp" then
      Q = torch.matrix_exp(A)
   else -- (I - A/2)^-1 (I + A/2)
      local Id = torch.eye(n, {dtype = A.dtype, device = A.device})
      Q = torch.linalg.solve(Id - A * 0.5, Id + A * 0.5)
   end
   return n == k and Q or Q:narrow(-1, 1, k)
end

function Orthogonal:forward(X)
   local wide = X:size(-2) < X:size(-1)
   if wide then X = X.mT end
   local Q
   if self.orthogonal_map == "householder" then
      local A = X:tril(-1)
      local tau = 2 / (1 + (A * A):sum(-2))
      Q = householder_product(A, tau)
      -- the signs on the diagonal, 1 or -1, are not learnt
      Q = Q * X:diagonal(0, -2, -1):detach():trunc():unsqueeze(-2)
   else
      Q = of_skew_symmetric(X, self.orthogonal_map)
   end
   if self.base then Q = self.base:matmul(Q) end
   return wide and Q.mT or Q
end

function Orthogonal:right_inverse(value)
   local _ <close> = torch.no_grad()
   if table.concat(value.shape, ",") ~= table.concat(self.shape, ",") then
      args.refuse("nn.utils.parametrizations.orthogonal", "value",
         ("a tensor of shape (%s)"):format(table.concat(self.shape, ", ")), value)
   end
   local Q = value
   local wide = Q:size(-2) < Q:size(-1)
   if wide then Q = Q.mT end
   local n, k = Q:size(-2), Q:size(-1)
   if not self.trivial then
      local A, tau = geqrf(Q)
      -- R's diagonal has the sign of each column. A tau of 0 means that the column has no
      -- reflection.
      local diagonal = A:diagonal(0, -2, -1)
      local sign = diagonal:sign()
      diagonal:copy_(torch.where(tau:eq(0), -sign, sign))
      return wide and A.mT or A
   end
   if n ~= k then
      local shape = Q.shape
      shape[#shape] = n - k
      Q = torch.cat({Q, torch.randn(shape, {dtype = Q.dtype, device = Q.device})}, -1)
      Q = make_orthogonal(Q)
   else
      Q = is_orthogonal(Q) and Q:clone() or make_orthogonal(Q)
   end
   self:register_buffer("base", Q)
   local negative = torch.zeros_like(value)
   negative:diagonal(0, -2, -1):fill_(-1)
   return negative
end

local take_orthogonal = args.signature [[nn.utils.parametrizations.orthogonal(module: table,
   name: string = 'weight', orthogonal_map: string?, use_trivialization: boolean = true)]]

--- Keeps a matrix, or each of a batch (..., n, k), orthogonal: its columns, or its rows if there
--- are more columns than rows, are orthonormal. The maps are `matrix_exp` (of a skew-symmetric
--- matrix; the default for square weights), `cayley`, and `householder` (the default for all other
--- weights). With `use_trivialization` the map's result is multiplied by a matrix that is stored,
--- so that a matrix can be assigned with every map (M. Lezcano-Casado, arXiv:1909.09501).
---@param module nn.Module
---@param name? string  "weight" by default
---@param options? {orthogonal_map: string, use_trivialization: boolean}
---@return nn.Module module
function M.orthogonal(...)
   local a = take_orthogonal(...)
   local title = "nn.utils.parametrizations.orthogonal"
   local weight = weight_of(title, a.module, a.name)
   if weight:dim() < 2 then
      args.refuse(title, a.name, "a matrix or a batch of matrices", weight)
   end
   local map = a.orthogonal_map
      or weight:size(-2) == weight:size(-1) and "matrix_exp" or "householder"
   if map ~= "matrix_exp" and map ~= "cayley" and map ~= "householder" then
      args.refuse(title, "orthogonal_map", "matrix_exp, cayley or householder", map)
   end
   return parametrize.register_parametrization(a.module, a.name,
      Orthogonal(weight, map, a.use_trivialization), {unsafe = true})
end

-- Weight norm ---------------------------------------------------------------------------------

local WeightNorm = class.class("nn._WeightNorm", Module)

function WeightNorm:__init(dim)
   Module.__init(self)
   self.dim = dim
end

function WeightNorm:forward(g, v)
   return norms.scaled(v, g, self.dim)
end

function WeightNorm:right_inverse(weight)
   return norms.except(weight, self.dim), weight
end

local take_weight_norm = args.signature [[nn.utils.parametrizations.weight_norm(module: table,
   name: string = 'weight', dim: integer|boolean = 1)]]

--- Splits a weight into its length and its direction, w = g v / |v| (arXiv:1602.07868):
--- `parametrizations.weight.original0` is g, and `original1` is v.
---@param module nn.Module
---@param name? string  "weight" by default
---@param dim? integer|false  the dimension whose positions have separate lengths, 1 by
--- default; false: one length for the whole weight
---@return nn.Module module
function M.weight_norm(...)
   local a = take_weight_norm(...)
   local title = "nn.utils.parametrizations.weight_norm"
   norms.dimension(title, weight_of(title, a.module, a.name), a.dim)
   return parametrize.register_parametrization(a.module, a.name, WeightNorm(a.dim),
      {unsafe = true})
end

-- Spectral norm -------------------------------------------------------------------------------

local SpectralNorm = class.class("nn._SpectralNorm", Module)

function SpectralNorm:__init(weight, iterations, dim, eps)
   Module.__init(self)
   self.dim, self.eps, self.n_power_iterations = dim, eps, iterations
   if weight:dim() < 2 then return end
   local matrix = norms.matrix(weight:detach(), dim)
   self:register_buffer("_u", F.normalize(
      torch.randn_like(matrix:select(2, 1)), {dim = 1, eps = eps}))
   self:register_buffer("_v", F.normalize(
      torch.randn_like(matrix:select(1, 1)), {dim = 1, eps = eps}))
   norms.power_method(matrix, self._u, self._v, 15, eps)
end

function SpectralNorm:forward(weight)
   if weight:dim() == 1 then return F.normalize(weight, {dim = 1, eps = self.eps}) end
   local matrix = norms.matrix(weight, self.dim)
   if self.training then
      norms.power_method(matrix, self._u, self._v, self.n_power_iterations, self.eps)
   end
   -- Copies are used, because the next call changes u and v.
   local u, v = self._u:clone(), self._v:clone()
   return weight / torch.dot(u, torch.mv(matrix, v))
end

function SpectralNorm:right_inverse(value) -- luacheck: ignore self
   return value
end

local take_spectral_norm = args.signature [[nn.utils.parametrizations.spectral_norm(module: table,
   name: string = 'weight', n_power_iterations: integer = 1, eps: number = 1e-12, dim: integer?)]]

--- Divides a weight by its largest singular value (arXiv:1802.05957), which is estimated by the
--- power method: a few steps whenever the weight is read in training mode. A weight of more than
--- two dimensions is treated as a matrix that has one row for each position along `dim`.
---@param module nn.Module
---@param name? string  "weight" by default
---@param options? {n_power_iterations: integer, eps: number, dim: integer}  dim: 1 by default, 2
--- for transposed convolutions
---@return nn.Module module
function M.spectral_norm(...)
   local a = take_spectral_norm(...)
   local title = "nn.utils.parametrizations.spectral_norm"
   local weight = weight_of(title, a.module, a.name)
   local dim = norms.dimension(title, weight, a.dim or norms.output_dimension(a.module))
   norms.check_elements(title, a.name, weight)
   if a.n_power_iterations < 1 then
      args.refuse(title, "n_power_iterations", "an integer of at least 1", a.n_power_iterations)
   end
   return parametrize.register_parametrization(a.module, a.name,
      SpectralNorm(weight, a.n_power_iterations, dim, a.eps))
end

return M
