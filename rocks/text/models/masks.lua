-- masks.lua - attention masks, which select the keys that a query may see. A mask is a boolean
-- tensor that broadcasts to (B, heads, queries, keys); nil means that all keys are seen.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

--- Returns a padding mask (B, S) as booleans, which are false for padding, or nil if no token is
--- padding.
---@param title string  the model's name, for error messages
---@param mask? Tensor  (B, S): 1 or true for tokens, 0 or false for padding
---@param batch integer
---@param length integer
---@return Tensor?
function M.padding(title, mask, batch, length)
   if mask == nil then return nil end
   if not torch.is_tensor(mask) or mask:dim() ~= 2 or mask:size(1) ~= batch
         or mask:size(2) ~= length then
      args.refuse(title, "attention_mask", ("a tensor of shape (%d, %d)"):format(batch, length),
         mask)
   end
   if mask.dtype ~= "bool" then mask = mask:ne(0) end
   if not mask.is_meta and mask:all():item() then return nil end
   return mask
end

--- Returns the mask of an encoder's layers, (B, 1, 1, S), or nil if there is no padding.
---@param padding? Tensor  (B, S), from M.padding
---@return Tensor?
function M.encoder(padding)
   return padding and padding:unsqueeze(2):unsqueeze(2)
end

--- Returns the mask of a decoder's layers, and whether the layers use the option is_causal of
--- attention instead of a mask.
---@param count integer  the number of queries
---@param keys integer  the number of keys; the last keys belong to the same tokens as the queries
---@param padding? Tensor  (B, all positions so far)
---@param window? integer  the number of keys that a query sees, including its own token's key
---@param device any
---@return Tensor? mask
---@return boolean is_causal
function M.causal(count, keys, padding, window, device)
   if padding and padding:size(2) > keys then padding = padding:narrow(2, -keys, keys) end
   local seen = padding and M.encoder(padding)
   if count == 1 then return seen, false end
   local slides = window and window < keys
   if not seen and not slides and count == keys then return nil, true end
   local at = {dtype = "int64", device = device}
   local query = torch.arange(keys - count + 1, keys + 1, at):unsqueeze(2)
   local key = torch.arange(1, keys + 1, at):unsqueeze(1)
   local mask = key:le(query)
   if slides then mask = mask & key:gt(query - window) end
   return seen and mask & seen or mask, false
end

return M
