-- operators.lua - the table of operators. For each domain, it maps the names of operators to
-- functions. A function gets the node and the inputs, and returns the outputs. A domain's files are
-- loaded when a model first needs the domain.

local M = {}

--- The newest supported version of each domain.
M.newest = {
   [""] = 28, ["ai.onnx.ml"] = 5, ["ai.onnx.preview"] = 1, ["ai.onnx.preview.training"] = 1,
}

local files <const> = {
   [""] = {"math", "logic", "reductions", "shapes", "indexing", "layers", "pools", "norms",
      "recurrent", "attention", "resize", "quantization", "control", "losses", "signal", "random",
      "texts", "vision"},
   ["ai.onnx.ml"] = {"learning"},
   ["ai.onnx.preview"] = {"preview"},
   ["ai.onnx.preview.training"] = {"training"},
}

local sets = {}

--- Returns the operators of a domain, or nil for an unknown domain.
---@param domain string
---@return table<string, fun(node: onnx.Node, ...): any>? operators
function M.find(domain)
   if not files[domain] then return nil end
   if not sets[domain] then
      local set = {}
      for _, file in ipairs(files[domain]) do
         for name, op in pairs(require("tlua.onnx." .. file)) do set[name] = op end
      end
      sets[domain] = set
   end
   return sets[domain]
end

return M
