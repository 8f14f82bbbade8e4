-- folder.lua - reads the special tokens and chat templates in a model's folder, from
-- tokenizer_config.json, special_tokens_map.json, chat_template.jinja and
-- additional_chat_templates. Tokenizer.lua reads tokenizer.json or tokenizer.model itself.

local json = require "tlua.utils.json"
local read_file = require "tlua.utils.read_file"

local M = {}

local special_names <const> = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
   "cls_token", "mask_token"}

--- Reads a JSON file. Returns an empty table if the file does not exist, or nil and a message if it
--- is malformed.
---@param path string
---@return table? config
---@return string? message
local function read_json(path)
   local text = read_file(path)
   if not text then return {} end
   local config, why = json.decode(text)
   if type(config) ~= "table" then
      return nil, ("%s: %s"):format(path, why or "expected an object")
   end
   return config
end

local function text_of(value)
   if type(value) == "table" then value = value.content end
   return type(value) == "string" and value or nil
end

-- Converts the field chat_template of a configuration to one template or a table of templates.
local function template_of(value)
   if type(value) ~= "table" or value == json.null then return text_of(value) end
   local list = {}
   for _, entry in ipairs(value) do
      if type(entry) == "table" and type(entry.name) == "string"
         and type(entry.template) == "string" then
         list[entry.name] = entry.template
      end
   end
   return next(list) and list or nil
end

-- Reads the chat templates that are stored in separate files.
local function template_files(folder, template)
   local text = read_file(folder .. "/chat_template.jinja")
   if text then template = text end
   local list
   for _, name in ipairs {"tool_use", "rag"} do
      local more = read_file(("%s/additional_chat_templates/%s.jinja"):format(folder, name))
      if more then
         list = list or {default = text}
         list[name] = more
      end
   end
   return list or template
end

--- Reads the special tokens and the chat templates of a folder, and stores them in a tokenizer.
---@param self table  the tokenizer
---@param folder string
---@return table? self
---@return string? message
function M.read(self, folder)
   local config, why = read_json(folder .. "/tokenizer_config.json")
   if not config then return nil, why end
   local map, reason = read_json(folder .. "/special_tokens_map.json")
   if not map then return nil, reason end
   self.special_tokens = {}
   for _, name in ipairs(special_names) do
      local value = config[name]
      if value == nil then value = map[name] end
      self.special_tokens[name] = text_of(value)
   end
   for _, side in ipairs {"padding_side", "truncation_side"} do
      if config[side] == "left" or config[side] == "right" then self[side] = config[side] end
   end
   self.chat_template = template_files(folder, template_of(config.chat_template))
   self.config = config
   return self
end

return M
