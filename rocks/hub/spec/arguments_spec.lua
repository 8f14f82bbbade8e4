-- Tests the errors of torch.hub for wrong arguments. No test needs a server.

local torch = require "tlua"
local shell = require "spec.support.shell"

local hub, nn = torch.hub, torch.nn
local net = nn.Linear(2, 1)

-- Returns a description of `net` for hub.pack, with changes.
local function line(changes)
   local model = {name = "line", weights = net, architecture = {"nn.Linear", 2, 1}}
   for key, value in pairs(changes or {}) do model[key] = value end
   return model
end

local url <const> = "https://host.invalid/a.safetensors"
local state <const> = "hub.load_state_dict_from_url: "

describe("a wrong argument of torch.hub", function()
   for expected, fn in pairs {
      ['hub.set_dir: d: expected a folder\'s path, got "a\\0b"'] = function() hub.set_dir "a\0b" end,
      ["hub.pack: architecture: expected data that JSON can represent: json.encode: "] =
         function() hub.pack(line {architecture = {"nn.Linear", 2, 1, bias = false}}, "/tmp/none.safetensors") end,
      ["hub.pack: config: expected data that JSON can represent: json.encode: "] =
         function() hub.pack(line {config = {a = {1, 2, b = 3}}}, "/tmp/none.safetensors") end,
      ["hub.load: token: expected a token without control characters"] =
         function() hub.load("a/b", {token = "a\nb", offline = true}) end,
      ['hub.load: sha256: expected a file or a URL as repo_or_dir, got "a/b"'] =
         function() hub.load("a/b", {sha256 = "000000", offline = true}) end,
      ["hub.download: files: expected a list of at least one name, got a table"] =
         function() hub.download("/tmp", {files = {}}) end,
      ["hub.download: files[1]: expected a file's name inside of the repository, got nil"] =
         function() hub.download("/tmp", {files = {nil, "hub.json"}}) end,
      ["hub.download: files[2]: expected a file's name inside of the repository, got 3"] =
         function() hub.download("/tmp", {files = {"hub.json", 3}}) end,
      ["hub.download: files[1]: expected a file's name inside of the repository, got \"com1.txt\""] =
         function() hub.download("/tmp", {files = {"com1.txt"}}) end,
      [state .. 'model_dir: expected a folder\'s path, got ""'] = function() hub.load_state_dict_from_url(url, "") end,
      [state .. 'model_dir: expected a folder\'s path, got "a\\0b"'] =
         function() hub.load_state_dict_from_url(url, "a\0b") end,
      [state .. "map_location: expected "] = function()
         hub.load_state_dict_from_url(url, {map_location = 3, offline = true})
      end,
      ["hub.download_url_to_file: dst: expected a file's path, not a folder, got \"/tmp\""] =
         function() hub.download_url_to_file("http://127.0.0.1:9/x", "/tmp") end,
   } do
      it("raises " .. expected:gsub("%z", "?"), function() assert.raises(expected, fn) end)
   end
end)

describe("torch.hub.load", function()
   it("compares a file with sha256, and takes no sha256 for a folder", shell.in_folder(function(folder)
      local path = hub.pack(line(), folder .. "/line.safetensors")
      local sum = require "tlua.hub.download".sha256(path)
      assert.equal("nn.Linear", torch.type(hub.load(path, {sha256 = sum:sub(1, 8):upper()})))
      assert.raises(path .. ": SHA-256: expected 000000, got ", function() hub.load(path, {sha256 = "000000"}) end)
      assert.raises("hub.load: sha256: expected a file or a URL as repo_or_dir, got ",
         function() hub.load(folder, {sha256 = sum}) end)
   end))

   it("gives a function of hubconf.lua the options, and keeps its error's value", shell.in_folder(function(folder)
      shell.write(folder .. "/hubconf.lua", [[return {
         given = function(n, options) return {n, options} end,
         fails = function() error {code = 7} end,
      }]])
      assert.same({5, {pretrained = false}}, hub.load(folder, "given", 5, {trust = true, pretrained = false}))
      assert.same({5, {}}, hub.load(folder, "given", 5, {trust = true}))
      local fine, why = pcall(hub.load, folder, "fails", {trust = true})
      assert.is_false(fine)
      assert.same({code = 7}, why)
   end))
end)

describe("an architecture", function()
   it("may contain a module of a group of torch.vision.models", function()
      if not torch.has "vision" then return pending "needs the package vision" end
      local architecture = require "tlua.hub.architecture"
      local model, why = architecture.build({"nn.Sequential", {"vision.models.quantization.none"}}, nil, "a")
      assert.is_nil(model)
      assert.equal("a[2]: there is no vision.models.quantization.none", why)
   end)
end)
