-- rnn.lua - torch.nn.utils.rnn: pads and packs sequences of different lengths.
--
-- A packed sequence has no padding: it consists of the rows of all samples at step 1, then the rows
-- at step 2, and so on. Samples are ordered by length, longest first. batch_sizes has the number of
-- samples at each step.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"

local M = {}

-- PackedSequence ------------------------------------------------------------------------------

--- Packed sequences, as pack_padded_sequence or pack_sequence makes them.
---
---     local rnn = torch.nn.utils.rnn
---     local packed = rnn.pack_sequence {torch.tensor {1, 2, 3}, torch.tensor {4}}
---     print(packed.data, packed.batch_sizes)
---     --> tensor([1, 4, 2, 3])	tensor([2, 1, 1])
---@class nn.utils.rnn.PackedSequence
---@field data Tensor  (rows, ...)
---@field batch_sizes Tensor  (steps), int64 on the CPU
---@field sorted_indices? Tensor  the number of each packed sample in the given order
---@field unsorted_indices? Tensor  permutation that restores the given order
---@field is_cuda boolean  whether the data is on a CUDA device
local PackedSequence = class.class("nn.utils.rnn.PackedSequence")
M.PackedSequence = PackedSequence

local title <const> = "nn.utils.rnn."
-- the options for tensors of batch sizes and lengths, which are on the CPU
local cpu <const> = {device = "cpu"}
local take_sequence = args.signature(title .. [[PackedSequence(data: tensor, batch_sizes: tensor,
   sorted_indices: tensor?, unsorted_indices: tensor?)]])

function PackedSequence:__init(...)
   local a = take_sequence(...)
   if not a.batch_sizes.is_cpu then
      args.refuse(title .. "PackedSequence", "batch_sizes", "a tensor on the CPU", a.batch_sizes)
   end
   self.data, self.batch_sizes, self.sorted_indices = a.data, a.batch_sizes, a.sorted_indices
   self.unsorted_indices = a.unsorted_indices
      or a.sorted_indices and M.invert_permutation(a.sorted_indices)
end

function PackedSequence.__index(self, name)
   if name == "is_cuda" then return rawget(self, "data").is_cuda end
   return PackedSequence[name]
end

-- Returns a copy of packed sequences that has `data` as its data, and the indices on the device of
-- `data`.
local function with_data(self, data)
   if data == self.data then return self end
   local function moved(indices) return indices and indices:to(data.device) end
   return PackedSequence(data, self.batch_sizes, moved(self.sorted_indices),
      moved(self.unsorted_indices))
end

--- Converts the data to another dtype or device; returns itself if nothing changes.
---@param ... any  the arguments of Tensor:to
---@return nn.utils.rnn.PackedSequence
function PackedSequence:to(...) return with_data(self, self.data:to(...)) end

--- Converts the data as the method of tensors with the same name does. Returns the object itself if
--- nothing changes.
---@names nn.utils.rnn.PackedSequence:cpu nn.utils.rnn.PackedSequence:cuda
---@names nn.utils.rnn.PackedSequence:double nn.utils.rnn.PackedSequence:float
---@names nn.utils.rnn.PackedSequence:half nn.utils.rnn.PackedSequence:bfloat16
---@names nn.utils.rnn.PackedSequence:long nn.utils.rnn.PackedSequence:int
---@names nn.utils.rnn.PackedSequence:short nn.utils.rnn.PackedSequence:char
---@names nn.utils.rnn.PackedSequence:byte nn.utils.rnn.PackedSequence:pin_memory
---@param ... any  the arguments of the method of tensors
---@return nn.utils.rnn.PackedSequence
for name in ([[cpu cuda double float half bfloat16 long int short char byte
   pin_memory]]):gmatch "[%w_]+" do
   PackedSequence[name] = function(self, ...)
      return with_data(self, self.data[name](self.data, ...))
   end
end

--- Returns whether the data is in page-locked memory.
---@return boolean
function PackedSequence:is_pinned() return self.data:is_pinned() end

function PackedSequence:__tostring()
   local text = "PackedSequence(data=%s, batch_sizes=%s, sorted_indices=%s, unsorted_indices=%s)"
   return text:format(self.data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)
end

-- Arguments -----------------------------------------------------------------------------------

-- Returns lengths, given as a tensor or a list, as an int64 tensor on the CPU.
local function take_lengths(name, lengths, batch)
   local tensor = lengths
   if type(lengths) == "table" and not torch.is_tensor(lengths) then
      for _, n in ipairs(lengths) do
         if not math.tointeger(n) then args.refuse(name, "lengths", "integers", n) end
      end
      tensor = torch.tensor(lengths, {dtype = "int64", device = "cpu"})
   end
   if not torch.is_tensor(tensor) or tensor:is_floating_point() or tensor:dim() ~= 1
      or tensor:size(1) ~= batch then
      args.refuse(name, "lengths", ("%d integers, one for each sequence"):format(batch), lengths)
   end
   return tensor:to("cpu"):to("int64")
end

local function take_list(name, sequences)
   local ok = type(sequences) == "table" and #sequences > 0
   for _, sequence in ipairs(ok and sequences or {}) do
      ok = ok and torch.is_tensor(sequence) and sequence:dim() > 0
   end
   if not ok then
      args.refuse(name, "sequences", "a list of tensors, each (length, ...)", sequences)
   end
end

local function refuse_packed(name, sequence)
   if torch.type(sequence) ~= "nn.utils.rnn.PackedSequence" then
      args.refuse(name, "sequence", "a PackedSequence", sequence)
   end
end

-- Packing -------------------------------------------------------------------------------------

--- Returns the inverse of a permutation.
---@param permutation? Tensor  (n), positions from 1
---@return Tensor?
function M.invert_permutation(permutation)
   if permutation == nil then return nil end
   if not torch.is_tensor(permutation) or permutation:dim() ~= 1 then
      args.refuse("nn.utils.rnn.invert_permutation", "permutation", "a tensor of one dimension",
         permutation)
   end
   local positions = torch.arange(1, permutation:numel() + 1, {device = permutation.device})
   return torch.empty_like(permutation):scatter_(1, permutation, positions:to(permutation.dtype))
end

-- Returns a mask (steps, batch) that is true while a sample's sequence lasts.
local function mask_of(lengths, steps)
   return torch.arange(steps, cpu):unsqueeze(2):lt(lengths)
end

-- Returns the positions at which a mask is true, counted in row-major order.
local function positions_of(mask, device)
   return mask:flatten():nonzero():squeeze(2):to(device)
end

local take_pack = args.signature(title .. [[pack_padded_sequence(input: tensor, lengths: any,
   batch_first: boolean = false, enforce_sorted: boolean = true)]])

--- Packs sequences that are padded to one tensor (T, B, ...), or (B, T, ...) with `batch_first`.
--- The sequences must be ordered by descending length, unless enforce_sorted is false: then this
--- function sorts them.
---@param input Tensor
---@param lengths Tensor|integer[]
---@param batch_first? boolean  false by default
---@param enforce_sorted? boolean  true by default
---@return nn.utils.rnn.PackedSequence
function M.pack_padded_sequence(...)
   local a = take_pack(...)
   local name <const>, input = title .. "pack_padded_sequence", a.input
   if input:dim() < 2 or input:numel() == 0 then
      args.refuse(name, "input", "a tensor that is not empty, of at least 2 dimensions", input)
   end
   if a.batch_first then input = input:transpose(1, 2) end
   local lengths = take_lengths(name, a.lengths, input:size(2))
   local sorted, order = lengths:sort(1, true)
   local steps, least = sorted[1]:item(), sorted[-1]:item()
   if least < 1 or steps > input:size(1) then
      torch.raise(("%s: lengths: expected 1 to %d, got %d"):format(name, input:size(1),
         least < 1 and least or steps))
   end
   local indices
   if not a.enforce_sorted then
      indices = order:to(input.device)
      input = input:index_select(2, indices)
   elseif not torch.equal(sorted, lengths) then
      args.refuse(name, "lengths",
         "the longest first; pass enforce_sorted = false to have them sorted", a.lengths)
   end
   local mask = mask_of(sorted, steps)
   local rows = positions_of(mask, input.device)
   local data = input:narrow(1, 1, steps):flatten(1, 2):index_select(1, rows)
   return PackedSequence(data, mask:sum(2), indices)
end

local take_pad = args.signature(title .. [[pad_packed_sequence(sequence: any,
   batch_first: boolean = false, padding_value: number = 0, total_length: count?)]])

--- Pads packed sequences to one tensor (T, B, ...), or (B, T, ...) with `batch_first`, of
--- total_length steps if given.
---@param sequence nn.utils.rnn.PackedSequence
---@param batch_first? boolean  false by default
---@param padding_value? number  0 by default
---@param total_length? integer
---@return Tensor
---@return Tensor lengths  (B), int64 on the CPU
function M.pad_packed_sequence(...)
   local a = take_pad(...)
   local name <const>, sequence = title .. "pad_packed_sequence", a.sequence
   refuse_packed(name, sequence)
   local data, sizes = sequence.data, sequence.batch_sizes
   local steps, batch = a.total_length or sizes:numel(), sizes[1]:item()
   if steps < sizes:numel() then
      args.refuse(name, "total_length", ("at least %d, the longest"):format(sizes:numel()), steps)
   end
   local mask = torch.arange(batch, cpu):lt(sizes:unsqueeze(2))
   local rows = positions_of(mask, data.device)
   local shape = data.shape
   shape[1] = steps * batch
   local padded = torch.full(shape, a.padding_value, {dtype = data.dtype, device = data.device})
      :index_copy(1, rows, data):unflatten(1, {steps, batch})
   local lengths = mask:sum(1)
   if sequence.unsorted_indices then
      padded = padded:index_select(2, sequence.unsorted_indices)
      lengths = lengths:index_select(1, sequence.unsorted_indices:to("cpu"))
   end
   return a.batch_first and padded:transpose(1, 2) or padded, lengths
end

-- Lists of sequences --------------------------------------------------------------------------

local take_pad_list = args.signature(title .. [[pad_sequence(sequences: any,
   batch_first: boolean = false, padding_value: number = 0, padding_side: string = 'right')]])

--- Pads sequences (length, ...) to the length of the longest one, and stacks them: (T, B, ...), or
--- (B, T, ...) with `batch_first`.
---
---     local a, b = torch.tensor {1, 2, 3}, torch.tensor {4}
---     print(torch.nn.utils.rnn.pad_sequence({a, b}, {batch_first = true}))
---     --> tensor([[1, 2, 3],
---     -->         [4, 0, 0]])
---@param sequences Tensor[]
---@param batch_first? boolean  false by default
---@param padding_value? number  0 by default
---@param padding_side? string  "right" or "left"
---@return Tensor
function M.pad_sequence(...)
   local a = take_pad_list(...)
   local name <const>, sequences = title .. "pad_sequence", a.sequences
   take_list(name, sequences)
   if a.padding_side ~= "right" and a.padding_side ~= "left" then
      args.refuse(name, "padding_side", "right or left", a.padding_side)
   end
   local longest = 0
   for _, sequence in ipairs(sequences) do longest = math.max(longest, sequence:size(1)) end
   local padded = {}
   for i, sequence in ipairs(sequences) do
      local amounts = {}
      for k = 1, 2 * sequence:dim() do amounts[k] = 0 end
      amounts[#amounts - (a.padding_side == "left" and 1 or 0)] = longest - sequence:size(1)
      padded[i] = F.pad(sequence, amounts, "constant", a.padding_value)
   end
   return torch.stack(padded, a.batch_first and 1 or 2)
end

--- Returns a list of the sequences that were padded to one tensor (T, B, ...), or (B, T, ...) with
--- `batch_first`.
---@param padded_sequences Tensor
---@param lengths Tensor|integer[]
---@param batch_first? boolean  false by default
---@return Tensor[]
function M.unpad_sequence(padded_sequences, lengths, batch_first)
   local name <const> = title .. "unpad_sequence"
   if not torch.is_tensor(padded_sequences) or padded_sequences:dim() < 2 then
      args.refuse(name, "padded_sequences", "a tensor of at least 2 dimensions", padded_sequences)
   end
   local batch = batch_first and padded_sequences or padded_sequences:transpose(1, 2)
   local list = {}
   for i, n in ipairs(take_lengths(name, lengths, batch:size(1)):tolist()) do
      if n < 0 or n > batch:size(2) then
         torch.raise(("%s: lengths[%d]: expected 0 to %d, got %d"):format(
            name, i, batch:size(2), n))
      end
      list[i] = batch[i]:narrow(1, 1, n)
   end
   return list
end

local take_pack_list = args.signature(title .. [[pack_sequence(sequences: any,
   enforce_sorted: boolean = true)]])

--- Packs sequences (length, ...), which must come longest first unless enforce_sorted is false.
---@param sequences Tensor[]
---@param enforce_sorted? boolean  true by default
---@return nn.utils.rnn.PackedSequence
function M.pack_sequence(...)
   local a = take_pack_list(...)
   take_list(title .. "pack_sequence", a.sequences)
   local lengths = {}
   for i, sequence in ipairs(a.sequences) do lengths[i] = sequence:size(1) end
   return M.pack_padded_sequence(M.pad_sequence(a.sequences), lengths,
      {enforce_sorted = a.enforce_sorted})
end

--- Returns a list of the packed sequences, in the order in which they were given.
---@param packed_sequences nn.utils.rnn.PackedSequence
---@return Tensor[]
function M.unpack_sequence(packed_sequences)
   refuse_packed(title .. "unpack_sequence", packed_sequences)
   local padded, lengths = M.pad_packed_sequence(packed_sequences, true)
   return M.unpad_sequence(padded, lengths, true)
end

return M
