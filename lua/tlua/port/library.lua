-- library.lua - maps names of Python's library and of packages around PyTorch to Lua, and has
-- advice for names without a counterpart.

local torch_names = require "tlua.port.torch_names"
local types = require "tlua.port.types"
local Porter = require "tlua.port.Porter"

local prec = Porter.prec

local M = {}

-- Hints -----------------------------------------------------------------------------------------

-- Advice for names without a counterpart, indexed by the beginning of their path; the longest match
-- is used. The runtime's `missing` raises the same text if a program uses such a name.
local hints = {
   ["torchvision"] = "the package tlua-vision has torch.vision",
   ["torchaudio"] = "the package tlua-audio has torch.audio",
   ["torchtext"] = "torchtext has no counterpart; torch.text, of the package tlua-text, has "
      .. "tokenizers",
   ["torch.jit"] = "there is no TorchScript: the function itself serves",
   ["numpy"] = "NumPy's arrays become tensors: find the function of torch that does the same",
   ["matplotlib"] = "torch.utils.plot draws curves and images",
   ["gym"] = "torch.rl, of the package tlua-rl, has environments, and a base for one's own",
   ["gymnasium"] = "torch.rl, of the package tlua-rl, has environments, and a base for one's own",
   ["stable_baselines3"] = "torch.rl, of the package tlua-rl, has PPO, A2C, DQN, SAC, TD3 and DDPG",
   ["lightning"] = "torch.trainer, of the package tlua-trainer, has Lightning's names",
   ["pytorch_lightning"] = "torch.trainer, of the package tlua-trainer, has Lightning's names",
   ["torch_geometric"] = "torch.graphs, of the package tlua-graphs, has networks on graphs",
   ["PIL"] = "torch.load reads images into tensors",
   ["tqdm"] = "torch.utils.Progress draws a bar around a loop",
   ["pandas"] = "torch.data.CSV reads columns of numbers and text",
   ["scipy"] = "SciPy has no counterpart",
   ["sklearn"] = "scikit-learn has no counterpart; torch.utils.metrics has measures",
   ["wandb"] = "torch.utils.wandb, of the package tlua-wandb, writes its offline runs",
   ["huggingface_hub"] = "torch.hub, of the package tlua-hub, has download and load",
   ["transformers"] = "torch.text, of the package tlua-text, has models (from_pretrained), "
      .. "generation and Tokenizer, which reads tokenizer.json",
   ["tokenizers"] = "torch.text.Tokenizer, of the package tlua-text, reads tokenizer.json",
   ["sentencepiece"] = "torch.text.Tokenizer, of the package tlua-text, reads its files",
   ["pickle"] = "torch.save and torch.load keep tables of tensors and plain values",
   ["subprocess"] = "io.popen and os.execute run programs",
   ["re"] = "Lua's patterns (string.match, gsub) are not regular expressions",
}

M.no_hint = "no counterpart in Lua's library"

--- Returns advice for a name without a counterpart.
---@param path string
---@return string
function M.hint(path)
   local best
   for beginning in pairs(hints) do
      local fits = path == beginning or path:sub(1, #beginning + 1) == beginning .. "."
      if fits and (not best or #beginning > #best) then best = beginning end
   end
   return best and hints[best] or M.no_hint
end

-- Values ----------------------------------------------------------------------------------------

local values = {
   ["math.pi"] = {"math.pi", types.float}, ["math.inf"] = {"math.huge", types.float},
   ["math.nan"] = {"(0 / 0)", types.float}, ["math.e"] = {"math.exp(1)", types.float},
   ["numpy.pi"] = {"math.pi", types.float}, ["numpy.inf"] = {"math.huge", types.float},
   ["numpy.newaxis"] = {"torch.newaxis", nil},
   ["numpy.nan"] = {"(0 / 0)", types.float}, ["sys.argv"] = {"arg", types.list},
   ["sys.stdout"] = {"io.stdout", types.file}, ["sys.stderr"] = {"io.stderr", types.file},
   ["sys.maxsize"] = {"math.maxinteger", types.int}, ["os.environ"] = {"os.getenv"},
   ["os.sep"] = {'"/"', types.str}, ["string.ascii_lowercase"] = {'"abcdefghijklmnopqrstuvwxyz"',
      types.str},
}
for name in ("float16 float32 float64 int8 int16 int32 int64 uint8"):gmatch "%w+" do
   values["numpy." .. name] = {"torch." .. name, types.dtype}
end

local dtypes = {}
for name in ([[float32 float float64 double float16 half bfloat16 int8 int16 short int32 int int64
   long uint8 bool complex64 complex128 cfloat cdouble]]):gmatch "%w+" do
   dtypes["torch." .. name] = true
end

--- Translations of Python's builtins that are used as values, as in `map(int, xs)` and
--- `type=float`.
M.builtin_values = {
   print = "print", len = "py.len", str = "tostring", float = "tonumber", int = "math.tointeger",
   abs = "math.abs", max = "math.max", min = "math.min", sorted = "py.sorted", sum = "py.sum",
   list = "py.list", ValueError = '"ValueError"', RuntimeError = '"RuntimeError"',
}

-- Packages whose functions are translated one by one, so that the Lua script needs no counterpart
-- of the import.
local translated = {
   math = true, os = true, sys = true, time = true, random = true, argparse = true, copy = true,
   itertools = true, collections = true, functools = true, typing = true, json = true, numpy = true,
   dataclasses = true, warnings = true, abc = true, enum = true, string = true, io = true,
   __future__ = true, operator = true, datetime = true, glob = true, pathlib = true,
   contextlib = true, logging = true, gc = true,
}

--- Returns whether a path belongs to one of these packages.
function M.is_translated(path)
   return translated[path:match "^[%w_]+"] == true
end

-- Maps libraries around PyTorch to the packages of tlua that replace them: "torchvision" becomes
-- torch.vision.
local packages = {torchvision = "vision", torchaudio = "audio"}

--- Returns whether a path belongs to PyTorch, or to a library that a package of tlua replaces.
function M.is_torch(path)
   local root = path:match "^[%w_]+"
   return root == "torch" or packages[root] ~= nil
end

-- Maps PyTorch's paths to the paths in tlua where they differ.
local renamed = {
   ["torch.utils.data"] = "torch.data", ["torch.Tensor"] = "torch.Tensor",
   ["torch.backends.cudnn"] = "torch.backends.cudnn",
   ["torchvision.transforms"] = "torch.vision.transforms.v2",
   ["torchvision.transforms.v2"] = "torch.vision.transforms.v2",
}
for library, rock in pairs(packages) do renamed[library] = "torch." .. rock end

--- Returns the path of a torch name in tlua: "torch.utils.data.DataLoader" becomes
--- "torch.data.DataLoader".
function M.torch_text(path)
   local longest
   for from in pairs(renamed) do
      local fits = path == from or path:sub(1, #from + 1) == from .. "."
      if fits and (not longest or #from > #longest) then longest = from end
   end
   return longest and renamed[longest] .. path:sub(#longest + 1) or path
end

--- Adds a note if tlua lacks a name of torch.
function M.check_torch(P, node, path)
   local value, nearest = torch_names.find(M.torch_text(path))
   if value == nil and not dtypes[path] and path ~= "torch.device" and path ~= "torch.Tensor" then
      local hint, rock = M.hint(path), packages[path:match "^[%w_]+"]
      if rock and torch_names.find("torch." .. rock) ~= nil then hint = M.no_hint end
      P:missing(node, path, hint ~= M.no_hint and hint or "tlua has no such name"
         .. (nearest and "; the nearest is " .. nearest or ""))
      return false
   end
   return true
end

-- Returns the text of a chain of attributes, such as `nn.Linear` or `torch.float32`, which is the
-- same in Lua.
local function chain(P, node)
   if node._ == "Name" then
      if node.id == "torch" then P.uses_torch = true end
      return P:name(node.id)
   end
   return P:field(chain(P, node.value), node.attr)
end

--- Translates a dotted name used as a value.
function M.value(P, node, path)
   local known = values[path]
   if known then
      if known[1]:find "^torch" then P.uses_torch = true end
      return {t = known[1], p = prec.prefix, ty = known[2]}
   end
   local ty = {k = "lib", path = path}
   if M.is_torch(path) then
      P.uses_torch = true
      if dtypes[path] then ty = types.dtype end
      M.check_torch(P, node, path)
      local text = chain(P, node)
      local root = text:match "^([%w_]+)%."
      if root == "torch" or packages[root] then text = M.torch_text(text) end
      return {t = text, p = prec.prefix, ty = ty}
   end
   if M.is_translated(path) then
      P:missing(node, path, M.hint(path))
      return {t = ("%s(%q)"):format(P:py "missing", path), p = prec.prefix, ty = ty}
   end
   P:missing(node, path, M.hint(path))
   return {t = chain(P, node), p = prec.prefix, ty = ty}
end

return M
