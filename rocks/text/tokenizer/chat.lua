-- chat.lua - renders conversations as text in a model's own format, with chat templates.

local Template = require "tlua.text.Template"
local args = require "tlua.args"
local torch = require "tlua"
local values = require "tlua.text.template.values"

local M = {}

local name <const> = "text.Tokenizer.apply_chat_template"
local tag <const> = "CONTINUE_FINAL_MESSAGE_TAG "
local reasoning <const> = {"reasoning_content", "thinking", "reasoning"}

-- The options of apply_chat_template that are not passed to the template as variables.
local own <const> = {}
for option in ([[tools documents chat_template add_generation_prompt continue_final_message tokenize
      padding truncation max_length return_tensors return_dict return_assistant_tokens_mask
      sanitize_control_tokens tokenizer_kwargs messages]]):gmatch "%S+" do
   own[option] = true
end

local function refuse(...) args.refuse(name, ...) end

-- Converts a Lua value to a template value, or raises an error.
local function value_of(what, value)
   local ok, result = pcall(values.from_lua, value)
   if ok then return result end
   if type(result) ~= "table" then error(result, 0) end
   torch.raise(("%s: %s: %s"):format(name, what, result.template))
end

-- Converts a list of tables to template values. Returns the template's none for nil.
local function dicts_of(what, value)
   if value == nil then return values.none end
   local list = value_of(what, value)
   if list == values.none then return list end
   if values.kind(list) ~= "list" then
      if values.kind(list) == "dict" and #list.keys == 0 then return values.list {} end
      refuse(what, "a list of tables", value)
   end
   for i, entry in ipairs(list) do
      if values.kind(entry) ~= "dict" then
         torch.raise(("%s: %s[%d]: expected a table, got %s"):format(name, what, i,
            values.repr(entry)))
      end
   end
   return list
end

-- Returns a copy of a message without fields that are none. The message's reasoning, which
-- templates read under several names, is stored under all of them.
local function normalized(message)
   local new, thought = values.dict(), nil
   for _, field in ipairs(reasoning) do
      local found = values.get(message, field)
      if thought == nil and found ~= values.none then thought = found end
   end
   if thought ~= nil then values.put(new, "thinking", thought) end
   for _, key in ipairs(message.keys) do
      local value = values.get(message, key)
      if value ~= values.none then values.put(new, key, value) end
   end
   if thought ~= nil then values.put(new, "reasoning_content", thought) end
   return new
end

-- Returns the list of conversations, and whether the user passed several conversations.
local function conversations_of(messages)
   local value = value_of("messages", messages)
   if values.kind(value) ~= "list" or #value == 0 then
      refuse("messages", "a list with at least one message", messages)
   end
   local is_batch = values.kind(value[1]) == "list"
   local chats = is_batch and value or {value}
   for i, chat in ipairs(chats) do
      local what = is_batch and ("messages[%d]"):format(i) or "messages"
      if values.kind(chat) == "dict" and #chat.keys == 0 then chat = values.list {} end
      if values.kind(chat) ~= "list" then
         torch.raise(("%s: %s: expected a list of messages, got %s"):format(name, what,
            values.repr(chat)))
      end
      local list = values.list {}
      for k, message in ipairs(chat) do
         if values.kind(message) ~= "dict" then
            torch.raise(("%s: %s[%d]: expected a table with role and content, got %s"):format(name,
               what, k, values.repr(message)))
         end
         list[k] = normalized(message)
      end
      chats[i] = list
   end
   return chats, is_batch
end

--- Returns the chat template. `choice` is a template or the name of one. If it is nil, has_tools
--- decides which template is used.
---@param self table  a tokenizer
---@param choice? string
---@param has_tools boolean
---@param who? string  the function's name in messages, by default that of apply_chat_template
---@return string
function M.template(self, choice, has_tools, who)
   who = who or name
   if choice ~= nil and type(choice) ~= "string" then
      args.refuse(who, "chat_template", "a text", choice)
   end
   local known = self.chat_template
   if type(known) == "table" then
      if choice and known[choice] then return known[choice] end
      if choice then return choice end
      local found = has_tools and known.tool_use or known.default
      if found then return found end
      local names = {}
      for key in pairs(known) do names[#names + 1] = key end
      table.sort(names)
      torch.raise(("%s: expected chat_template, one of %s, since none is the default"):format(who,
         table.concat(names, ", ")))
   end
   choice = choice or known
   if choice then return choice end
   return torch.raise(who .. ": expected a chat_template: the tokenizer has none")
end

local function compiled(self, source)
   local cache = self.templates or setmetatable({}, {__mode = "v"})
   self.templates = cache
   if not cache[source] then
      local ok, made = pcall(Template, source)
      if not ok then torch.raise((tostring(made):gsub("^.-text%.Template: ", name .. ": "))) end
      cache[source] = made
   end
   return cache[source]
end

-- Puts a mark at the end of the last message, which the model will continue. Returns the message's
-- text.
local function mark_final(chat, field, source)
   local last = chat[#chat]
   if not last then torch.raise(name .. ": continue_final_message: expected a message") end
   field = type(field) == "string" and field or "content"
   local final = values.get(last, field)
   if final == nil then
      torch.raise(("%s: continue_final_message: expected a last message with %s"):format(name,
         field))
   end
   local fields, in_template = {field}, false
   for _, one in ipairs(reasoning) do
      if one == field then
         fields = {}
         for _, other in ipairs(reasoning) do
            local found = values.get(last, other)
            if found ~= nil and values.equal(found, final) then fields[#fields + 1] = other end
         end
      end
   end
   for _, one in ipairs(fields) do in_template = in_template or source:find(one, 1, true) end
   if not in_template then
      torch.raise(("%s: continue_final_message: expected a field of the template, got %s"):format(
         name, field))
   end
   if values.kind(final) == "list" then
      for i = #final, 1, -1 do
         local text = values.kind(final[i]) == "dict" and values.get(final[i], "text")
         if type(text) == "string" then
            values.put(final[i], "text", text .. tag)
            return text
         end
      end
   elseif type(final) == "string" then
      for _, one in ipairs(fields) do values.put(last, one, final .. tag) end
      return final
   end
   return torch.raise(("%s: continue_final_message: expected a text in %s of the last message")
      :format(name, field))
end

-- Cuts off the part of a rendered text that follows the message that the model will continue.
-- mark_final has put a mark there.
local function cut_final(text, final)
   local bare, at = tag:sub(1, -2), nil
   local from = 1
   while true do
      local found = text:find(bare, from, true)
      if not found then break end
      at, from = found, found + 1
   end
   local strings = require "tlua.text.template.strings"
   if not at or not text:find(strings.strip(final, nil, true, true), 1, true) then
      torch.raise(name .. ": continue_final_message: expected a template that writes the last "
         .. "message as it is")
   end
   local before = text:sub(1, at - 1)
   if text:sub(at, at + #tag - 1) == tag then return before end
   return strings.strip(before, nil, false, true)
end

local function check(options)
   for _, option in ipairs {"tokenize", "return_dict", "add_generation_prompt",
      "return_assistant_tokens_mask"} do
      local value = options[option]
      if value ~= nil and type(value) ~= "boolean" then refuse(option, "a boolean", value) end
   end
   local form, most = options.return_tensors, options.max_length
   if form ~= nil and type(form) ~= "boolean" and form ~= "pt" then
      refuse("return_tensors", 'a boolean or "pt"', form)
   end
   if most ~= nil and not (math.type(most) and math.tointeger(most)) then
      refuse("max_length", "an integer", most)
   end
   if options.sanitize_control_tokens then
      torch.raise(name .. ": sanitize_control_tokens is not supported")
   end
   if options.tokenizer_kwargs ~= nil then
      torch.raise(name .. ": tokenizer_kwargs is not supported")
   end
   local mask = options.return_assistant_tokens_mask
   if mask and (options.tokenize == false or options.return_dict == false) then
      torch.raise(name .. ": return_assistant_tokens_mask: expected tokenize and return_dict")
   end
   if options.continue_final_message then
      for _, other in ipairs {"add_generation_prompt", "return_assistant_tokens_mask"} do
         if options[other] then
            torch.raise(("%s: expected either continue_final_message or %s"):format(name, other))
         end
      end
   end
end

--- Renders each conversation.
---@param self table  a tokenizer
---@param messages table
---@param options table
---@return string[] texts
---@return boolean is_batch
---@return integer[][][] generated  for each text, the first and last bytes of the parts that the
--- model generates
function M.render(self, messages, options)
   check(options)
   local chats, is_batch = conversations_of(messages)
   local source = M.template(self, options.chat_template, options.tools ~= nil)
   local template = compiled(self, source)
   local variables = {}
   for key, text in pairs(self.special_tokens or {}) do variables[key] = text end
   for key, value in pairs(options) do
      if type(key) ~= "string" then refuse("options", "texts as names", key) end
      if not own[key] then variables[key] = value_of(key, value) end
   end
   variables.tools = dicts_of("tools", options.tools)
   variables.documents = dicts_of("documents", options.documents)
   variables.add_generation_prompt = options.add_generation_prompt and true or false
   local texts, generated = {}, {}
   for i, chat in ipairs(chats) do
      local continued = options.continue_final_message
      local final = continued and mark_final(chat, continued, source)
      variables.messages = chat
      texts[i], generated[i] = template:_render(name, variables)
      if final then texts[i] = cut_final(texts[i], final) end
   end
   return texts, is_batch, generated
end

-- Tokens ----------------------------------------------------------------------------------------

-- Encodes texts with the padding and truncation of this call instead of the tokenizer's own
-- settings.
local function encodings_of(self, texts, options)
   local truncation, padding = self.truncation, self.padding
   self.truncation, self.padding = nil, nil
   local ok, result = pcall(function()
      if options.truncation then
         if not options.max_length then refuse("max_length", "an integer", nil) end
         self:enable_truncation(options.max_length, {direction = self.truncation_side})
      end
      local pads = options.padding
      if pads and pads ~= "do_not_pad" then
         local token = self.special_tokens and self.special_tokens.pad_token
         local id = token and self:token_to_id(token)
         if not id then torch.raise(name .. ": padding: expected a tokenizer with a pad_token") end
         if pads ~= true and pads ~= "longest" and pads ~= "max_length" then
            refuse("padding", "true, longest, max_length or do_not_pad", pads)
         end
         if pads == "max_length" and not options.max_length then
            refuse("max_length", "an integer", nil)
         end
         self:enable_padding {direction = self.padding_side, pad_id = id, pad_token = token,
            length = pads == "max_length" and options.max_length or 0}
      end
      return self:encode_batch(texts, {add_special_tokens = false})
   end)
   self.truncation, self.padding = truncation, padding
   if not ok then error(result, 0) end
   return result
end

-- Returns a list with 1 for each token that overlaps a span that the model generates, and 0 for the
-- other tokens.
local function mask_of(encoding, spans)
   local mask, at = {}, 1
   for i, place in ipairs(encoding.offsets) do
      while spans[at] and place[1] > spans[at][2] do at = at + 1 end
      local span = spans[at]
      mask[i] = span and place[2] >= span[1] and place[1] <= place[2] and 1 or 0
   end
   return mask
end

local function as_tensor(list)
   local count = #list[1]
   for i, row in ipairs(list) do
      if #row ~= count then
         torch.raise(("%s: return_tensors: expected texts of equal length, or padding; text %d has "
            .. "%d tokens, text 1 has %d"):format(name, i, #row, count))
      end
   end
   return torch.tensor(list, {dtype = "int64"})
end

--- Returns the rendered text of conversations, or their tokens.
---@param self table  a tokenizer
---@param messages table
---@param options table
---@return any
function M.apply(self, messages, options)
   local texts, is_batch, generated = M.render(self, messages, options)
   if options.tokenize == false then return is_batch and texts or texts[1] end
   local encodings = encodings_of(self, texts, options)
   local result = {input_ids = {}, attention_mask = {}}
   if options.return_assistant_tokens_mask then result.assistant_masks = {} end
   for i, encoding in ipairs(encodings) do
      result.input_ids[i], result.attention_mask[i] = encoding.ids, encoding.attention_mask
      if result.assistant_masks then
         result.assistant_masks[i] = mask_of(encoding, generated[i])
      end
   end
   for key, list in pairs(result) do
      if options.return_tensors then
         result[key] = as_tensor(list)
      elseif not is_batch then
         result[key] = list[1]
      end
   end
   if options.return_dict == false then return result.input_ids end
   return result
end

return M
