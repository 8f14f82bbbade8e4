-- sparse.lua - sparse tensors in PyTorch's files, where positions count from 0.

local torch = require "tlua"

local M = {}

-- Maps a sparse tensor's table of components to the list of dense tensors that M.tensors has
-- returned for it.
local written = setmetatable({}, {__mode = "k"})

--- Returns the dense tensors that represent a sparse tensor in a file, in PyTorch's order: first
--- the positions, which count from 0, then the values. Later calls return the same tensors, as long
--- as the sparse tensor does not change.
---@param parts table  the components of the sparse tensor
---@return Tensor[]
function M.tensors(parts)
   local list = written[parts]
   if not list or list.version ~= parts.version or list.values ~= parts.values then
      list = {version = parts.version, values = parts.values}
      for _, key in ipairs {"indices", "pointers", "plain"} do
         if parts[key] then list[#list + 1] = parts[key] - 1 end
      end
      list[#list + 1] = parts.values:detach()
      written[parts] = list
   end
   return list
end

--- Writes a sparse tensor into a pickle.
---@param out io.Pickler
---@param parts table
---@param put fun(out: io.Pickler, tensor: Tensor, requires_grad: boolean)  writes a dense tensor
function M.put(out, parts, put)
   out:call("torch._utils", "_rebuild_sparse_tensor", function()
      out:call("torch.serialization", "_get_layout", function()
         out:string("torch." .. parts.layout)
      end)
      out:raw "("
      for _, tensor in ipairs(M.tensors(parts)) do put(out, tensor, false) end
      out:call("torch", "Size", function() out:integers(parts.size) end)
      if parts.layout == "sparse_coo" then out:put(parts.coalesced) end
      out:raw "t"
   end)
end

local compressed <const> = {
   sparse_csr = true, sparse_csc = true, sparse_bsr = true, sparse_bsc = true,
}

-- Returns whether a tensor has more elements than the memory that it spans, so that a copy of it
-- would be larger than the file.
local function overlaps(tensor)
   local span, stride = 1, tensor:stride()
   for d, n in ipairs(tensor.shape) do span = span + (n - 1) * stride[d] end
   return tensor:numel() > math.max(span, 0)
end

--- Rebuilds a sparse tensor from the components in a file, which count from 0. Returns nil and a
--- message if they do not fit together.
---@param layout any
---@param data any[]
---@return Tensor?
---@return string?
function M.rebuild(layout, data)
   local positions = layout == "sparse_coo" and 1 or compressed[layout] and 2
   if not positions then return nil, "a sparse tensor of an unknown layout" end
   local made, s = pcall(function()
      local lists = {}
      for i = 1, positions do
         if overlaps(data[i]) then torch.raise "positions share memory with one another" end
         lists[i] = data[i] + 1
      end
      local values, size = data[positions + 1], data[positions + 2]
      if layout == "sparse_coo" then
         return torch.sparse_coo_tensor(lists[1], values, size,
            {is_coalesced = data[4] == true, check_invariants = true})
      end
      return torch.sparse_compressed_tensor(lists[1], lists[2], values, size,
         {layout = layout, check_invariants = true})
   end)
   if made then return s end
   return nil, "a malformed sparse tensor: " .. tostring(s):gsub("^.-:%d+: ", "")
end

return M
