-- emit_signatures.lua - writes the facts about operators that `tlua port` cannot derive itself:
-- which parameters are dimensions or positions, and the number of results. Operators with one
-- result and no such parameter are left out.

local bind = require "emit_bind"

local M = {}

local counted = {
   dim = true, ["dim[]"] = true, ["dim[][]"] = true, index = true, ["index[]"] = true,
}

local function counts(params)
   for _, p in ipairs(params) do
      if counted[p.type] then return true end
   end
   return false
end

-- Returns parameters as "self:Tensor dim:dim keepdim:bool * dtype:dtype". Calls give parameters
-- after `*` by name only.
local function params_text(params)
   local words, named = {}, false
   for _, p in ipairs(params) do
      if p.keyword_only and not named then
         named = true
         words[#words + 1] = "*"
      end
      words[#words + 1] = ("%s:%s%s"):format(bind.lua_name(p), p.type, p.vararg and "..." or "")
   end
   return table.concat(words, " ")
end

local function result_text(results)
   if results.kind == "tensors" then return table.concat(results.names, ",") end
   if results.kind == "value" then return results.info.lua end
   return results.kind == "self" and "self" or "Tensor"
end

local function add(rows, path, text)
   rows[path] = rows[path] or {}
   table.insert(rows[path], text)
end

-- Adds the binding's own functions whose annotations declare a dimension or a result type.
local function add_binding(rows, types)
   local result
   for line in types:gmatch "([^\n]*)\n" do
      result = line:match "^%-%-%-@return (%S+)" or result
      local separator, name, list = line:match "^function [%w_.]-([.:])([%w_]+)%((.-)%) end$"
      if name then
         local words = {}
         if separator == ":" then words[1] = "self:Tensor" end
         for param in list:gmatch "[%w_]+" do
            words[#words + 1] = param .. (param:find "^dim%d?$" and ":dim" or ":any")
         end
         local text = table.concat(words, " ")
         if result ~= "torch.Tensor" or text:find ":dim" then
            add(rows, "torch." .. name, ("%s -> %s"):format(text, result or "nil"))
         end
      end
      if not line:find "^%-%-%-" then result = nil end
   end
end

--- Returns signatures.lua, which maps each function to the list of its overloads: {["torch.sum"] =
--- {"self:Tensor dim:dim[] ... -> Tensor", ...}, ...}.
---@param all table  the result of `load.load`
---@return string
function M.signatures(all)
   local rows = {}
   for _, op in ipairs(all.ops) do
      local results = op.results
      if not op.internal and (counts(op.params) or results.kind == "tensors"
            or results.kind == "value") then
         local path = "torch." .. (op.module and op.module .. "." or "") .. op.lua
         local text = params_text(op.params) .. " -> " .. result_text(results)
         add(rows, path, text)
         for _, alias in ipairs(op.alias or {}) do
            add(rows, path:gsub("[%w_]+$", alias), text)
         end
      end
   end
   add_binding(rows, all.types)
   local names = {}
   for name in pairs(rows) do names[#names + 1] = name end
   table.sort(names)
   local out = {"-- Generated from src/ops and src/lua; not to be edited.", "return {"}
   for _, name in ipairs(names) do
      local forms = {}
      for i, text in ipairs(rows[name]) do forms[i] = ("%q"):format(text) end
      out[#out + 1] = ("   [%q] = {%s},"):format(name, table.concat(forms, ", "))
   end
   out[#out + 1] = "}\n"
   return table.concat(out, "\n")
end

return M
