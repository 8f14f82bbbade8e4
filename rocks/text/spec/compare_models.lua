-- compare_models.lua - compares models with the results that reference.py has written into folders:
--
--    python rocks/text/spec/reference.py /tmp/models
--    tlua rocks/text/spec/compare_models.lua /tmp/models [NAME ...]
--
-- For each model, it prints the largest differences of the logits without and with padding, of the loss and of the
-- gradients, and whether the generated tokens are equal. Differences of logits are relative to the largest logit.
-- Differences of a weight's gradient are relative to the largest element of this gradient, or to a hundredth of the
-- largest element of all gradients if that is larger.

local torch = require "tlua"

local M = {}

local function difference(expected, actual, keep)
   if keep then
      keep = keep:view(keep:size(1), keep:size(2), 1):to(expected.dtype)
      if expected:dim() == 2 then keep = keep:squeeze(3) end
      expected, actual = expected * keep, actual * keep
   end
   local scale = math.max(expected:abs():max():item(), 1e-12)
   local d = (expected - actual):abs():max():item() / scale
   return d == d and d or math.huge
end

local names = {"logits", "start_logits", "end_logits", "logits_per_image", "image_embeds", "text_embeds"}

local function outputs_differ(saved, prefix, result, mask)
   local worst, found = 0, false
   for _, name in ipairs(names) do
      local expected = saved[prefix .. "." .. name]
      if expected then
         found = true
         local by_token = mask and expected:dim() >= 2 and expected:size(2) == mask:size(2)
            and not name:find "embeds"
         worst = math.max(worst, difference(expected, result[name], by_token and mask or nil))
      end
   end
   return found and worst or math.huge
end

local function gradients_differ(model, saved)
   local worst, where, longest, count = 0, "", 0, 0
   for key, value in pairs(saved) do
      if key:find "^grad%." then longest = math.max(longest, value:abs():max():item()) end
   end
   for key, value in model:named_parameters() do
      key = key:gsub("%.(%d+)%f[%.]", function(n) return "." .. math.tointeger(n) - 1 end)
      local expected = saved["grad." .. key]
      if expected then
         count = count + 1
         local largest = math.max(expected:abs():max():item(), 1e-2 * longest)
         local d = value.grad and (expected - value.grad):abs():max():item() / largest or math.huge
         if d > worst then worst, where = d, key end
      elseif value.grad and value.grad:abs():max():item() > 1e-7 * longest then
         worst, where = math.huge, key .. " (not in the reference)"
      end
   end
   for key in pairs(saved) do if key:find "^grad%." then count = count - 1 end end
   return worst, where, count
end

-- The options of each search, as in reference.py.
local searches = {
   greedy = {}, beam = {num_beams = 3},
   beam_penalty = {num_beams = 4, num_return_sequences = 2, length_penalty = 2.0,
      early_stopping = true, no_repeat_ngram_size = 2},
   penalty = {repetition_penalty = 1.5, no_repeat_ngram_size = 3, min_new_tokens = 4},
}

function M.compare(folder)
   local model = torch.text.from_pretrained(folder)
   local saved = torch.load(folder .. "/reference.safetensors")
   local given, mask = {}, saved.mask
   for _, name in ipairs {"input_ids"} do
      if saved[name] then given[name] = saved[name] + 1 end
   end
   given.pixel_values = saved.pixel_values
   local plain = {}
   for key, value in pairs(given) do plain[key] = value end
   local is_seq2seq = torch.type(model):find "ForConditional"
   if is_seq2seq then plain.decoder_input_ids = given.input_ids:flip {1}:narrow(2, 1, 6) end
   local row = {}
   torch.no_grad(function()
      row.plain = outputs_differ(saved, "plain", model(plain))
      if mask then
         plain.attention_mask = mask
         row.masked = outputs_differ(saved, "masked", model(plain), mask)
      end
   end)
   for _, name in ipairs {"labels", "start_positions", "end_positions"} do
      local value = saved[name]
      if value then
         given[name] = value:is_floating_point() and value or torch.where(value:lt(0), value, value + 1)
      end
   end
   given.attention_mask = mask
   if saved["plain.logits_per_image"] then given.return_loss = true end
   local loss = model(given).loss
   row.loss = math.abs(loss:item() - saved.loss:item()) / math.abs(saved.loss:item())
   loss:backward()
   row.gradients, row.where, row.count = gradients_differ(model, saved)
   for name, options in pairs(searches) do
      local expected = saved[name]
      if expected then
         local all = {attention_mask = mask, max_new_tokens = 10, pad_token_id = 37}
         for key, value in pairs(options) do all[key] = value end
         local ids = model:generate(given.input_ids, all)
         row[name] = torch.equal(ids - 1, expected)
         if not row[name] then row.searches = (row.searches or "") .. " " .. name .. " differs" end
      end
   end
   return row
end

if arg and arg[0] and arg[0]:find "compare_models%.lua$" then
   local list = {table.unpack(arg, 2)}
   if #list == 0 then
      for path in io.popen("ls -d " .. arg[1] .. "/*/"):lines() do list[#list + 1] = path:match "([^/]+)/$" end
   end
   for _, name in ipairs(list) do
      local ok, row = pcall(M.compare, arg[1] .. "/" .. name)
      if not ok then
         print(("%-20s %s"):format(name, tostring(row):sub(1, 600)))
      else
         print(("%-20s logits %.1e  padded %.1e  loss %.1e  gradients %.1e %s %d%s"):format(name, row.plain,
            row.masked or 0, row.loss, row.gradients, row.gradients > 1e-4 and row.where or "", row.count,
            row.searches or ""))
      end
   end
end

return M
