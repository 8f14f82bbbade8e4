-- RotaryEmbedding.lua - encodes positions as rotations of pairs of features (J. Su et al.,
-- "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local Module = require "tlua.nn.modules.Module"

local signature = args.signature [[nn.RotaryEmbedding(dim: count, max_seq_len: count = 4096,
   base: number = 10000, interleaved: boolean = true, seq_dim: integer = 2)]]

--- Encodes positions as rotations of pairs of features, for the queries and keys of attention.
---
---
---     local rotate = torch.nn.RotaryEmbedding(4, 16)
---     local query = torch.ones(1, 2, 3, 4) -- (N, heads, tokens, features)
---     print(table.unpack(rotate(query).shape))
---     --> 1	2	3	4
---@class nn.RotaryEmbedding: nn.Module
---@field dim integer  number of rotated features, the first ones of each head
---@field max_seq_len integer  the largest number of positions
---@field base number  the base of the frequencies, which are base^(-2i / dim)
---@field angles Tensor  (max_seq_len, dim / 2)
---@field tables table<string, Tensor[]>  {cosines, sines} of the angles by dtype and device, made
--- when they are first needed
---@overload fun(dim: integer, max_seq_len?: integer, base?: number): nn.RotaryEmbedding
local RotaryEmbedding, parent = class.class("nn.RotaryEmbedding", Module)

--- Makes the layer. Pair i of position p, both counted from 0, is rotated by the angle p / base^(2
--- i / dim). A pair consists of neighbouring features, as in torchtune's
--- RotaryPositionalEmbeddings, or, with `interleaved = false`, of one feature from each half, as in
--- most checkpoints.
---@param dim integer  even
---@param max_seq_len? integer  number of positions
---@param base? number
---@param options? {interleaved: boolean, seq_dim: integer}
function RotaryEmbedding:__init(...)
   parent.__init(self)
   local a = signature(...)
   if a.dim % 2 ~= 0 or a.dim == 0 then
      args.refuse("nn.RotaryEmbedding", "dim", "an even number of features", a.dim)
   end
   self.dim, self.max_seq_len, self.base = a.dim, a.max_seq_len, a.base
   self.interleaved, self.seq_dim = a.interleaved, a.seq_dim
   self:reset_parameters()
end

--- Computes the table of angles. The table is not part of the module's state.
function RotaryEmbedding:reset_parameters()
   local like = {dtype = "float64", device = "cpu"}
   local theta = (torch.arange(0, self.dim, 2, like) * (-math.log(self.base) / self.dim)):exp()
   self.angles = torch.outer(torch.arange(0, self.max_seq_len, like), theta)
   self.tables = {}
end

-- Returns the cosines and sines (max_seq_len, dim / 2) on the device of x, in float32 for half
-- types.
local function tables_for(self, x)
   local dtype = x.dtype == "float64" and "float64" or "float32"
   local key = dtype .. " " .. x.device
   local found = self.tables[key]
   if not found then
      found = {self.angles:cos():to(dtype):to(x.device), self.angles:sin():to(dtype):to(x.device)}
      self.tables[key] = found
   end
   return found[1], found[2]
end

-- Reshapes the selected rows of a table so that they broadcast with x: the sizes of the batch (if
-- the positions have a batch dimension), of the sequence and of the pairs stay, and all other
-- dimensions get size 1.
local function in_place(rows, dims, seq_dim)
   local shape = {}
   for d = 1, dims do shape[d] = 1 end
   shape[seq_dim], shape[dims] = rows:size(-2), rows:size(-1)
   if rows:dim() == 3 then shape[1] = rows:size(1) end
   return rows:view(shape)
end

---@param x Tensor  (B, S, H, D), D at least dim; with seq_dim = 3 (B, H, S, D), and so on
---@param input_pos? Tensor  (S) or (B, S): positions, counted from 1; else 1 to S
---@return Tensor  the result, of the same shape
function RotaryEmbedding:forward(x, input_pos)
   if not torch.is_tensor(x) then args.refuse("nn.RotaryEmbedding", "input", "a tensor", x) end
   local dims = x:dim()
   local at = self.seq_dim < 0 and dims + 1 + self.seq_dim or self.seq_dim
   if at < 1 or at >= dims then
      args.refuse("nn.RotaryEmbedding", "input",
         ("positions in dimension %d, before the last"):format(self.seq_dim), x)
   end
   local cos, sin = tables_for(self, x)
   if input_pos then
      if not torch.is_tensor(input_pos) or input_pos:size(-1) ~= x:size(at)
         or input_pos:dim() == 2 and input_pos:size(1) ~= x:size(1) or input_pos:dim() > 2 then
         args.refuse("nn.RotaryEmbedding", "input_pos",
            ("(%d) or (%d, %d) positions"):format(x:size(at), x:size(1), x:size(at)), input_pos)
      end
      cos, sin = cos[input_pos], sin[input_pos]
   elseif x:size(at) > self.max_seq_len then
      args.refuse("nn.RotaryEmbedding", "input",
         ("at most max_seq_len = %d positions"):format(self.max_seq_len), x)
   else
      cos, sin = cos:narrow(1, 1, x:size(at)), sin:narrow(1, 1, x:size(at))
   end
   return F.rotary_embedding(x, in_place(cos, dims, at), in_place(sin, dims, at), self.interleaved)
end

function RotaryEmbedding:extra_repr()
   return ("(%d, max_seq_len=%d, base=%g, interleaved=%s)"):format(
      self.dim, self.max_seq_len, self.base, self.interleaved)
end

return RotaryEmbedding
