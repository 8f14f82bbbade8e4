-- lowrank.lua - torch.svd_lowrank, torch.pca_lowrank: approximate the largest singular values of a
-- matrix, from the products of the matrix with a few random vectors (Halko, Martinsson and Tropp,
-- 2009, algorithms 4.4 and 5.1).

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local svd_signature = args.signature [[svd_lowrank(A: tensor, q: integer = 6,
   niter: count = 2, M: tensor?)]]
local pca_signature = args.signature [[pca_lowrank(A: tensor, q: integer?, center: boolean = true,
   niter: count = 2)]]

-- Checks the matrix A, and returns the smaller of its last two sizes.
local function check(who, A)
   if A:dim() < 2 or A.dtype ~= "float32" and A.dtype ~= "float64" then
      args.refuse(who, "A", "matrices (..., m, n) of float32 or float64", A)
   end
   return math.min(A:size(-2), A:size(-1))
end

local function orthonormal(x)
   return (torch.linalg.qr(x))
end

-- Returns an orthonormal basis with q columns that approximately spans the range of A, a matrix
-- with at least as many rows as columns.
local function basis(A, q, niter)
   local Q = orthonormal(A:matmul(torch.randn(A:size(-1), q, {dtype = A.dtype, device = A.device})))
   for _ = 1, niter do
      Q = orthonormal(A:transpose(-2, -1):matmul(Q))
      Q = orthonormal(A:matmul(Q))
   end
   return Q
end

local function decompose(A, q, niter)
   local wide = A:size(-2) < A:size(-1)
   if wide then A = A:transpose(-2, -1) end
   local Q = basis(A, q, niter)
   local U, S, Vh = torch.linalg.svd(Q:transpose(-2, -1):matmul(A), {full_matrices = false})
   local V = Vh:transpose(-2, -1)
   U = Q:matmul(U)
   if wide then return V, S, U end
   return U, S, V
end

local function check_count(who, q, least)
   if q < 0 or q > least then
      args.refuse(who, "q", ("0 to %d, the lesser size of the matrix"):format(least), q)
   end
end

--- Returns the q largest singular values of A, or of A - M, and their singular vectors: A is
--- approximately U diag(S) V^T. The result is exact if A's rank is at most q; otherwise the error
--- is smaller if niter is larger or the singular values decay faster. The result is differentiable;
--- random numbers come from the generator of torch.manual_seed.
---@param A Tensor  (..., m, n), float32 or float64
---@param q? integer  the number of singular values, 6 unless given, at most min(m, n)
---@param niter? integer  number of subspace iterations, 2 by default
---@param options? table  the same arguments by name, and M, a tensor that is broadcast to A's shape
---@return Tensor U  (..., m, q)
---@return Tensor S  (..., q), in descending order
---@return Tensor V  (..., n, q)
function M.svd_lowrank(...)
   local a = svd_signature(...)
   check_count("svd_lowrank", a.q, check("svd_lowrank", a.A))
   if a.M and not pcall(a.M.expand_as, a.M, a.A) then
      args.refuse("svd_lowrank", "M", "a tensor that broadcasts to A's shape ("
         .. table.concat(a.A.shape, ", ") .. ")", a.M)
   end
   return decompose(a.M and a.A - a.M or a.A, a.q, a.niter)
end

--- Computes principal components: svd_lowrank of A minus the mean of its rows. The columns of V are
--- the directions of the components, S^2 / (m - 1) are the variances along these directions, and
--- A:matmul(V) has the coordinates.
---@param A Tensor  (..., m, n), m samples; float32 or float64
---@param q? integer  the number of components, min(6, m, n) unless given
---@param center? boolean  true unless given: whether the rows' mean is subtracted
---@param niter? integer  2 unless given
---@return Tensor U  (..., m, q)
---@return Tensor S  (..., q), in descending order
---@return Tensor V  (..., n, q)
function M.pca_lowrank(...)
   local a = pca_signature(...)
   local least = check("pca_lowrank", a.A)
   local q = a.q or math.min(6, least)
   check_count("pca_lowrank", q, least)
   return decompose(a.center and a.A - a.A:mean(-2, true) or a.A, q, a.niter)
end

return M
