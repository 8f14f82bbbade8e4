-- state.lua - saves the keys and values of a text to a file and loads them, so that a long prompt
-- is computed only once. The file is a safetensors file. It has the text's tokens, the used part of
-- each layer's buffers, and in its metadata a description of the model.

local torch = require "tlua"
local replace_file = require "tlua.io.replace"
local safetensors = require "tlua.io.safetensors"

local M = {}

local format <const> = "tlua.llm.state"

-- The fingerprint covers this many bytes at each end of a tensor.
local sampled <const> = 64

-- Returns a hash of a model's file. It covers the metadata and both ends of each tensor, so it is
-- fast to compute.
local function fingerprint(llm)
   if llm.fingerprint then return llm.fingerprint end
   local bytes, first, parts = llm.file.bytes, math.huge, {}
   local size = bytes:numel()
   for _, info in ipairs(llm.file.infos) do first = math.min(first, info.first) end
   local head = math.min(first, size + 1) - 1
   if head > 0 then parts[1] = bytes:narrow(1, 1, head) end
   local starts = {}
   for _, info in ipairs(llm.file.infos) do starts[#starts + 1] = info.first end
   table.sort(starts)
   for i, start in ipairs(starts) do
      local stop = starts[i + 1] or size + 1
      local count = math.min(sampled, stop - start)
      if count > 0 then
         parts[#parts + 1] = bytes:narrow(1, start, count)
         parts[#parts + 1] = bytes:narrow(1, stop - count, count)
      end
   end
   llm.fingerprint = torch.io._sha256(torch.cat(parts))
   return llm.fingerprint
end

-- Returns the properties of a model. A state of one model can be loaded into another model if these
-- properties are equal.
local function description(llm)
   local adapters = {}
   for i, adapter in ipairs(llm.adapters) do
      adapters[i] = ("%s scale %.17g"):format(adapter.sum, adapter.scale)
   end
   return {
      format = format, version = "1", model = fingerprint(llm), cache_type = llm.cache_type,
      architecture = llm.metadata["general.architecture"],
      adapters = table.concat(adapters, ", "),
   }
end

-- The fields of a description, in the order in which they are compared, with their names in
-- messages.
local fields <const> = {
   {"format", "the kind of file"}, {"version", "the version of the format"},
   {"architecture", "the architecture"}, {"model", "the hash of the model's file"},
   {"cache_type", "cache_type"}, {"adapters", "the LoRA adapters"},
}

-- Maps each floating-point dtype of a buffer to the integer dtype with the same number of bytes.
local integers <const> = {float64 = "int64", float32 = "int32", float16 = "int16",
   bfloat16 = "int16", int8 = "int8", int64 = "int64"}

-- Returns a checksum of tensors. Each tensor contributes a weighted sum of its elements, taken as
-- integers, modulo 2^64. The weights are different odd numbers.
local function checksum(entries)
   local total = 0
   for _, entry in ipairs(entries) do
      local x = entry.tensor:flatten()
      local factors = torch.arange(0, x:numel(), {dtype = "int64", device = "cpu"}) * 2 + 1
      total = total * 31 + (x:view(integers[x.dtype]):long() * factors):sum():item()
   end
   return ("%016x"):format(total)
end

--- Writes a state to a file.
---@param llm llm.Model
---@param path string
---@return integer count  the number of tokens
function M.save(llm, path)
   local slot = llm.scheduler:free_slot()
   if #slot.tokens == 0 then
      torch.raise "llm.Model.save_state: expected a text that was computed, got none"
   end
   -- The cache is cropped, because an interrupted step may have left further keys in some layers.
   slot.cache:crop(#slot.tokens)
   local entries = {}
   local function add(name, tensor) entries[#entries + 1] = {name = name, tensor = tensor} end
   add("tokens", torch.tensor(slot.tokens, {dtype = "int64", device = "cpu"}))
   for i, layer in ipairs(slot.cache.layers) do
      for k, buffer in ipairs(layer.buffers) do
         add(("layers.%d.%d"):format(i, k),
            buffer:narrow(3, 1, layer.used):contiguous():to "cpu")
      end
      add(("layers.%d.dropped"):format(i), torch.tensor({layer.dropped},
         {dtype = "int64", device = "cpu"}))
   end
   local metadata = description(llm)
   metadata.checksum = checksum(entries)
   local failure = replace_file(path, function(file)
      return safetensors.write(file, entries, metadata)
   end)
   if failure then torch.raise(("llm.Model.save_state: %s: %s"):format(path, failure)) end
   return #slot.tokens
end

-- Reading ---------------------------------------------------------------------------------------

local function fail(path, text, ...)
   torch.raise(("llm.Model.load_state: %s: %s"):format(path, text:format(...)))
end

local function check_description(llm, path, metadata)
   local own = description(llm)
   for _, field in ipairs(fields) do
      local name, said = table.unpack(field)
      local got = metadata and metadata[name]
      if got ~= own[name] then
         fail(path, "%s: expected %q, the model's, got %s", said, own[name],
            got == nil and "nothing" or ("%q"):format(tostring(got):sub(1, 100)))
      end
   end
end

-- Checks a tensor's dtype and shape. In `shape`, false stands for any size.
local function check_tensor(path, object, name, dtype, shape)
   local x = object[name]
   local fits = torch.is_tensor(x) and x.dtype == dtype and x:dim() == #shape
   for i, n in ipairs(shape) do fits = fits and (n == false or x:size(i) == n) end
   if not fits then
      local sizes = {}
      for i, n in ipairs(shape) do sizes[i] = n or "any" end
      fail(path, "tensor %q: expected %s of shape (%s), got %s", name, dtype,
         table.concat(sizes, ", "), not torch.is_tensor(x) and "none"
         or ("%s of shape (%s)"):format(x.dtype, table.concat(x.shape, ", ")))
   end
   return x
end

-- Checks the tokens of a state, and returns them.
local function read_tokens(llm, path, object)
   local tokens = check_tensor(path, object, "tokens", "int64", {false}):tolist()
   local most = llm.model.config.vocab_size
   if #tokens == 0 or #tokens > llm.n_ctx then
      fail(path, "tokens: expected 1 to n_ctx = %d tokens, got %d", llm.n_ctx, #tokens)
   end
   for i, token in ipairs(tokens) do
      if token < 1 or token > most then
         fail(path, "tokens[%d]: expected a token from 1 to %d, got %d", i, most, token)
      end
   end
   return tokens
end

--- Reads a state into the model's first slot. If the file does not fit the model, the model stays
--- unchanged.
---@param llm llm.Model
---@param path string
---@return integer count  the number of tokens
function M.load(llm, path)
   local file <close>, why = io.open(path, "rb")
   if not file then torch.raise("llm.Model.load_state: " .. why) end
   local object, metadata = safetensors.read(file, path, false)
   if not object then fail(path, "%s", metadata) end
   check_description(llm, path, metadata)
   local tokens = read_tokens(llm, path, object)
   local entries = {{tensor = object.tokens}}
   local cache, sample = llm.scheduler.new_cache(), llm.scheduler:sample_cache()
   for i, like in ipairs(sample.layers) do
      local dropped = check_tensor(path, object, ("layers.%d.dropped"):format(i), "int64",
         {1})[1]:item()
      local buffers = {}
      for k, buffer in ipairs(like.buffers) do
         local shape = {1, buffer:size(2), false, buffer:size(4)}
         buffers[k] = check_tensor(path, object, ("layers.%d.%d"):format(i, k), buffer.dtype, shape)
         shape[3] = buffers[1]:size(3)
         check_tensor(path, object, ("layers.%d.%d"):format(i, k), buffer.dtype, shape)
         entries[#entries + 1] = {tensor = buffers[k]}
         buffers[k] = buffers[k]:to(llm.device)
      end
      entries[#entries + 1] = {tensor = object[("layers.%d.dropped"):format(i)]}
      local used, window = buffers[1]:size(3), like.window
      local least = window and math.min(#tokens, window - 1) or #tokens
      if dropped < 0 or used + dropped ~= #tokens or used < least then
         fail(path, "layer %d: expected keys of %d tokens, got %d after %d dropped ones", i,
            #tokens, used, dropped)
      end
      cache.layers[i] = {buffers = buffers, used = used, dropped = dropped, window = window}
   end
   if checksum(entries) ~= metadata.checksum then
      fail(path, "the file is damaged: expected the checksum %s, got %s",
         tostring(metadata.checksum):sub(1, 20), checksum(entries))
   end
   cache.length = #tokens
   local slot = llm.scheduler:free_slot()
   slot.cache, slot.tokens = cache, tokens
   return #tokens
end

return M
