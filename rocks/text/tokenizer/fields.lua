-- fields.lua - checks the types of values in a tokenizer.json, so that a damaged setting is not
-- silently replaced by its default.

local M = {}

local function is_boolean(value) return type(value) == "boolean" end
local function is_text(value) return type(value) == "string" end
local function is_table(value) return type(value) == "table" end
local function is_count(value) return math.type(value) == "integer" and value >= 0 end

local function is_list(value)
   return type(value) == "table" and (next(value) == nil or value[1] ~= nil)
end

local function one_of(...)
   local known = {}
   for _, name in ipairs {...} do known[name] = true end
   return function(value) return known[value] or false end
end

local kinds = {}

local function declare(test, expected, names)
   for name in names:gmatch "%S+" do kinds[name] = {test, expected} end
end

declare(is_boolean, "true or false", [[special single_word lstrip rstrip normalized add_prefix_space
   trim_offsets use_regex split cleanup clean_text handle_chinese_chars strip_accents lowercase
   fuse_unk byte_fallback ignore_merges individual_digits invert strip_left strip_right]])
declare(is_text, "a text", [[pad_token prefix suffix replacement continuing_subword_prefix
   end_of_word_suffix unk_token word_delimiter_token content behavior]])
declare(is_count, "an integer of at least 0", [[type_id pad_id pad_type_id max_length stride
   pad_to_multiple_of Fixed unk_id start stop length max_input_chars_per_word]])
declare(is_list, "a list", "normalizers pretokenizers processors decoders ids tokens single pair")
declare(is_table, "an object", "special_tokens Sequence SpecialToken")
kinds.prepend_scheme = {one_of("always", "first", "never"), "always, first or never"}

local function refuse(fail, path, expected, value)
   fail(("%s: expected %s, got %s"):format(path, expected,
      type(value) == "table" and "a list or an object" or tostring(value)))
end

--- Checks the settings of an object and of all nested objects. Calls fail(why) if a setting is
--- invalid.
---@param value any
---@param path string  the path of the object followed by a dot, or ""
---@param fail fun(why: string)
function M.check(value, path, fail)
   if type(value) ~= "table" then return end
   for key, inner in pairs(value) do
      local at = type(key) == "number" and ("%s[%d]"):format(path:sub(1, -2), key)
         or path .. tostring(key)
      local kind = kinds[key]
      if kind and not kind[1](inner) then refuse(fail, at, kind[2], inner) end
      if key ~= "vocab" and key ~= "merges" then M.check(inner, at .. ".", fail) end
   end
end

local function check_choice(config, name, fail, ...)
   local value = config[name]
   if value ~= nil and not one_of(...)(value) then
      refuse(fail, name, table.concat({...}, " or "), value)
   end
end

--- Checks the sections truncation and padding of a tokenizer.json.
---@param truncation table?
---@param padding table?
---@param fail fun(section: string, why: string)
function M.check_lengths(truncation, padding, fail)
   for name, config in pairs {truncation = truncation, padding = padding} do
      local function refused(why) fail(name, why) end
      M.check(config, "", refused)
      check_choice(config, "direction", refused, "Left", "Right")
   end
   if truncation then
      check_choice(truncation, "strategy", function(why) fail("truncation", why) end,
         "LongestFirst", "OnlyFirst", "OnlySecond")
   end
   local strategy = padding and padding.strategy
   if strategy ~= nil and strategy ~= "BatchLongest"
      and (type(strategy) ~= "table" or strategy.Fixed == nil) then
      refuse(function(why) fail("padding", why) end, "strategy", "BatchLongest or Fixed", strategy)
   end
end

return M
