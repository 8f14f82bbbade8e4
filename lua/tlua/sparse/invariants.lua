-- invariants.lua - the conditions that the components of a sparse tensor must satisfy. Positions
-- are read on the host, so the checks wait for a device.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"

local V = require "tlua.sparse.value"

local M = {}

--- Switches the checks of positions in constructors of sparse tensors on or off. Positions must be
--- within the tensor's size, and in compressed layouts ascend without duplicates. Positions are
--- checked by default; shapes and dtypes are checked always. The option `check_invariants` of a
--- constructor has precedence.
---
---     local invariants = torch.sparse.check_sparse_tensor_invariants
---     print(invariants.is_enabled())
---     --> true
---@class sparse.check_sparse_tensor_invariants
local switch = {}
M.check_sparse_tensor_invariants = switch

--- Makes constructors check positions.
function switch.enable() V.checks = true end

--- Makes constructors accept positions without a check. A wrong position then shows only in later
--- operators.
function switch.disable() V.checks = false end

--- Returns whether constructors check positions.
---@return boolean
function switch.is_enabled() return V.checks end

checked.functions(switch, "sparse.check_sparse_tensor_invariants.",
   "enable() disable() is_enabled()")

local function refuse(who, text, ...) torch.raise(who .. ": " .. text:format(...)) end

-- Returns whether any element of a tensor of booleans is true.
local function any(flags) return flags:numel() > 0 and flags:any():item() end

--- Checks that positions of one dimension are within its size.
---@param who string
---@param what string
---@param positions Tensor
---@param size integer
---@param dim integer
function M.check_range(who, what, positions, size, dim)
   if positions:numel() == 0 then return end
   local least, most = positions:min():item(), positions:max():item()
   if least < 1 or most > size then
      refuse(who, "%s: expected positions from 1 to %d in dimension %d, got %d", what, size, dim,
         least < 1 and least or most)
   end
end

--- Checks the dtype and the number of dimensions of a tensor of positions.
---@param who string
---@param what string
---@param positions Tensor
---@param ndim? integer  at least one unless given
function M.check_positions(who, what, positions, ndim)
   if positions.dtype ~= "int64" and positions.dtype ~= "int32" then
      refuse(who, "%s: expected int64 or int32, got %s", what, positions.dtype)
   end
   if ndim and positions:dim() ~= ndim then
      args.refuse(who, what, ("a tensor of %d dimension%s"):format(ndim, ndim == 1 and "" or "s"),
         positions)
   elseif positions:dim() == 0 then
      args.refuse(who, what, "a tensor of at least one dimension", positions)
   end
end

--- Raises an error for a negative size.
---@param who string
---@param size integer[]
function M.check_size(who, size)
   for i, n in ipairs(size) do
      if n < 0 then refuse(who, "size[%d]: expected at least 0, got %d", i, n) end
   end
end

--- Returns whether positions are to be checked. They are not checked while torch.export records a
--- program, because their values are not known then.
---@param option? boolean  the option check_invariants
---@param values Tensor
---@return boolean
function M.wanted(option, values)
   if option == nil then option = V.checks end
   return option and values.device.type ~= "meta" and not torch._tracing()
end

--- Checks the positions of a sparse_coo tensor, and their order if it is marked as coalesced.
---@param who string
---@param p table
function M.check_coo(who, p)
   for d = 1, p.indices:size(1) do
      M.check_range(who, "indices", p.indices[d], p.size[d], d)
   end
   if not p.coalesced or p.indices:size(2) < 2 then return end
   local keys = require "tlua.sparse.convert".keys_of(p)
   if any(keys:narrow(1, 2, keys:numel() - 1):le(keys:narrow(1, 1, keys:numel() - 1))) then
      refuse(who, "is_coalesced: expected positions that ascend and differ from one another")
   end
end

--- Checks the positions of a compressed tensor, or of a batch.
---@param who string
---@param p table
---@param names string[]  the names of the pointers and of the plain positions
---@param lines integer  number of rows, or of columns
---@param across integer  size of the other dimension, in blocks for blocked layouts
function M.check_compressed(who, p, names, lines, across)
   local pointers, plain, each = p.pointers, p.plain, p.plain:size(-1)
   for _, end_ in ipairs {{1, 1, "first one to be 1"}, {-1, each + 1,
      ("last one to be %d, one behind the %d elements"):format(each + 1, each)}} do
      local found = pointers:select(-1, end_[1])
      local wrong = found:masked_select(found:ne(end_[2]))
      if wrong:numel() > 0 then
         refuse(who, "%s: expected the %s, got %d", names[1], end_[3], wrong[1]:item())
      end
   end
   local lengths = (pointers:narrow(-1, 2, lines) - pointers:narrow(-1, 1, lines)):reshape(-1)
   if any(lengths:lt(0)) then refuse(who, "%s: expected ascending pointers", names[1]) end
   if any(lengths:gt(across)) then
      refuse(who, "%s: expected at most %d elements between two, got %d", names[1], across,
         lengths:max():item())
   end
   local _, columns = V.kind_of(p.layout)
   M.check_range(who, names[2], plain, across, V.batch_dim(p) + (columns and 1 or 2))
   local nnz = plain:numel()
   if nnz < 2 then return end
   plain = plain:reshape(-1)
   local line = torch.repeat_interleave(
      torch.arange(1, lengths:numel() + 1, {device = plain.device}), lengths:to "int64")
   local same = line:narrow(1, 2, nnz - 1):eq(line:narrow(1, 1, nnz - 1))
   local falls = plain:narrow(1, 2, nnz - 1):le(plain:narrow(1, 1, nnz - 1))
   if any(same:logical_and(falls)) then
      refuse(who, "%s: expected ascending positions without duplicates within each %s", names[2],
         columns and "column" or "row")
   end
end

local names_of <const> = {
   [false] = {"crow_indices", "col_indices"}, [true] = {"ccol_indices", "row_indices"},
}

--- Checks the positions of a tensor that were changed in place. A tensor whose positions no longer
--- ascend is no longer coalesced.
---@param p table
function M.check_changed(p)
   local who <const> = "sparse tensor with positions changed in place"
   local _, columns = V.kind_of(p.layout)
   local batch = V.batch_dim(p)
   local nnz = p.values:size(batch + 1)
   for _, key in ipairs {"indices", "plain"} do
      if p[key] and p[key]:size(-1) ~= nnz then
         refuse(who, "expected as many positions as values, %d, got %d", nnz, p[key]:size(-1))
      end
   end
   if p.layout ~= "sparse_coo" then
      local block = V.block_of(p) or {1, 1}
      local counts = {p.size[batch + 1] // block[1], p.size[batch + 2] // block[2]}
      local lines, across = counts[columns and 2 or 1], counts[columns and 1 or 2]
      return M.check_compressed(who, p, names_of[columns], lines, across)
   end
   M.check_coo(who, {indices = p.indices, size = p.size})
   if not p.coalesced or nnz < 2 then return end
   local keys = require "tlua.sparse.convert".keys_of(p)
   p.coalesced = not any(keys:narrow(1, 2, nnz - 1):le(keys:narrow(1, 1, nnz - 1)))
end

return M
