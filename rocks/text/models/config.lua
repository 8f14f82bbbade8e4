-- config.lua - reads config.json, and fills missing fields with the defaults of a family. The
-- fields have Hugging Face's names. Fields that a family does not know are kept.

local torch = require "tlua"
local args = require "tlua.args"
local json = require "tlua.utils.json"

local M = {}

-- The tables that M.complete has returned are the keys of this weak table.
local complete = setmetatable({}, {__mode = "k"})

-- Copies a decoded JSON value, with nil in place of null.
local function plain(value)
   if value == json.null then return nil end
   if type(value) ~= "table" then return value end
   local copy = {}
   for key, item in pairs(value) do copy[key] = plain(item) end
   return copy
end

--- Reads a JSON file, which must contain an object. Fields that are null are left out.
---@param path string
---@param title? string  the function's name in messages, "text.from_pretrained" by default
---@return table
function M.read_json(path, title)
   title = title or "text.from_pretrained"
   local file <close>, message = io.open(path, "rb")
   if not file then torch.raise(("%s: %s"):format(title, message)) end
   local value, why = json.decode(file:read "a" or "")
   if value == nil then torch.raise(("%s: %s: %s"):format(title, path, why)) end
   if type(value) ~= "table" or value == json.null or json.is_array(value) then
      torch.raise(("%s: %s: expected a JSON object"):format(title, path))
   end
   return plain(value)
end

-- The defaults of the fields that the configurations of all families have.
local common = {
   initializer_range = 0.02, tie_word_embeddings = true, num_labels = 2, use_cache = true,
}

local function is_size(key, default)
   return math.type(default) == "integer" and not key:find "_id$" and not key:find "^max_rel"
end

local function is_count(value) return math.tointeger(value) ~= nil and value >= 1 end

local function is_list_of_strings(value)
   if type(value) ~= "table" then return false end
   for key, item in pairs(value) do
      if math.type(key) ~= "integer" or type(item) ~= "string" then return false end
   end
   return true
end

local function is_table(value) return type(value) == "table" end

local function is_share(value) return type(value) == "number" and value >= 0 and value <= 1 end

local count <const> = {"an integer of at least 1 or null", is_count}
local names <const> = {"a list of strings", is_list_of_strings}
local object <const> = {"an object or null", is_table}
local share <const> = {"a number from 0 to 1 or null", is_share}

-- Fields that may be null. Each has a list of two values: a description of the other valid values,
-- and a function that tests for them.
local optional <const> = {
   num_key_value_heads = count, head_dim = count, sliding_window = count, n_inner = count,
   num_decoder_layers = count, num_hidden_groups = count, inner_group_num = count,
   position_buckets = {"an integer", function(value) return math.tointeger(value) ~= nil end},
   embedding_size = count, projection_size = count,
   layer_types = names, architectures = names, rope_parameters = object, rope_scaling = object,
   id2label = object, text_config = object, vision_config = object,
   classifier_dropout = share, cls_dropout = share, pooler_dropout = share, qa_dropout = share,
   partial_rotary_factor = share, rotary_pct = share,
   problem_type = {"a string or null", function(value) return type(value) == "string" end},
   norm_rel_ebd = {"a string or null", function(value) return type(value) == "string" end},
   pos_att_type = {"a list of strings or a string", function(value)
      return type(value) == "string" or is_list_of_strings(value)
   end},
   pad_token_id = {"an integer or null", function(value) return math.tointeger(value) ~= nil end},
   eos_token_id = {"an integer, a list of integers or null", function(value)
      return math.tointeger(value) ~= nil or is_table(value)
   end},
   rope_theta = {"a positive number", function(value)
      return type(value) == "number" and value > 0
   end},
   attn_logit_softcapping = {"a positive number or null", function(value)
      return type(value) == "number" and value > 0
   end},
   clip_qkv = {"a positive number or null", function(value)
      return type(value) == "number" and value > 0
   end},
}
optional.final_logit_softcapping = optional.attn_logit_softcapping
optional.rope_local_base_freq = optional.rope_theta
optional.conv_kernel_size = optional.position_buckets

-- Checks the fields that may be null, and converts counts to integers.
local function check_optional(title, config)
   for key, kind in pairs(optional) do
      local value = config[key]
      if value ~= nil then
         if not kind[2](value) then args.refuse(title, key, kind[1], value) end
         if kind == count then config[key] = math.tointeger(value) end
      end
   end
end

local function check(title, config, defaults)
   for key, default in pairs(defaults) do
      local value = config[key]
      if default ~= nil and value ~= nil and type(value) ~= type(default) and default ~= M.none then
         args.refuse(title, key, "a " .. type(default), value)
      end
      if is_size(key, default) then
         local size = math.tointeger(value)
         if not size or size < 0 then
            args.refuse(title, key, "an integer of at least 0", value)
         end
         config[key] = size
      end
   end
end

local function count_labels(given)
   if given.num_labels then return given.num_labels end
   if type(given.id2label) ~= "table" then return nil end
   local n = 0
   for _ in pairs(given.id2label) do n = n + 1 end
   return n
end

--- Marks a field of a family's defaults that has no default: the field may have any type, and may
--- be missing.
M.none = setmetatable({}, {__name = "none"})

--- Fills missing fields of a configuration with a family's defaults, and checks the types of its
--- fields.
---@param family {title: string, defaults: table, finish: fun(config: table)?}
---@param given table
---@return table config
function M.complete(family, given)
   if complete[given] then return given end
   if type(given) ~= "table" or torch.is_tensor(given) or getmetatable(given) then
      args.refuse(family.title, "config", "a table such as {vocab_size = 100}", given)
   end
   local config = plain(given)
   check_optional(family.title, config)
   config.num_labels = count_labels(config)
   for _, defaults in ipairs {family.defaults, common} do
      for key, value in pairs(defaults) do
         if config[key] == nil and value ~= M.none then config[key] = plain(value) end
      end
   end
   check(family.title, config, common)
   check(family.title, config, family.defaults)
   config.model_type = config.model_type or family.model_type
   complete[config] = true
   if family.finish then family.finish(config) end
   return config
end

--- Returns whether a configuration came from M.complete.
---@param config any
---@return boolean
function M.is_complete(config) return complete[config] == true end

--- Raises an error unless the field `size` is a multiple of the field `part`.
---@param title string
---@param config table
---@param size string  the name of a field
---@param part string  the name of a field
function M.check_multiple(title, config, size, part)
   if config[part] < 1 or config[size] % config[part] ~= 0 then
      torch.raise(("%s: %s: expected a multiple of %s, got %d and %d"):format(title, size, part,
         config[size], config[part]))
   end
end

return M
