-- Tests torch.utils.mlflow with a folder, whose files must equal those written by MLflow's file store, and with a small
-- server that sends responses recorded from MLflow 3.

local torch = require "tlua"
local shell = require "spec.support.shell"
local http = require "tlua.utils.http"
local json = torch.utils.json
local mlflow = torch.utils.mlflow

-- A program that answers HTTP requests until it is told to stop. It prints its port, and writes
-- each request to a file.
local server <const> = [==[
local torch = require "tlua"
local listener = assert(torch._listen "127.0.0.1")
local log, mode = assert(io.open(arg[1], "w")), arg[2]
print(listener:port())
io.stdout:flush()
local answers = {
   ["GET /api/2.0/mlflow/experiments/get-by-name"] = {404,
      '{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Could not find experiment"}'},
   ["POST /api/2.0/mlflow/experiments/create"] = {200, '{"experiment_id": "17"}'},
   ["POST /api/2.0/mlflow/runs/create"] = {200, '{"run": {"info": {"run_id": "0a1b", '
      .. '"artifact_uri": "mlflow-artifacts:/17/0a1b/artifacts"}}}'},
}
while true do
   local socket = listener:accept(600)
   if not socket then break end
   local text = ""
   local function more() local part = socket:take(60) text = text .. (part or "") return part end
   while not text:find "\r\n\r\n" do if not more() then break end end
   local head, body = text:match "^(.-)\r\n\r\n(.*)$"
   local length = tonumber(head:match "Content%-Length: (%d+)") or 0
   while #body < length do
      text = ""
      more()
      body = body .. text
   end
   local what = head:match "^(%u+ [^ ?]+)"
   log:write(head:match "^[^\r]*", "\n", body, "\n")
   log:flush()
   local answer = answers[what] or {200, "{}"}
   if mode == "refuse" and what:find "log%-batch" then
      answer = {400, '{"error_code": "INVALID_PARAMETER_VALUE", "message": "no such thing"}'}
   elseif mode == "break" and what:find "log%-batch" then
      answer = {503, "sorry"}
   end
   local status, content = answer[1], answer[2]
   socket:send(("HTTP/1.1 %d X\r\n"):format(status))
   if mode == "chunked" then
      socket:send "Transfer-Encoding: chunked\r\n\r\n"
      for c in content:gmatch ".." do socket:send(("2\r\n%s\r\n"):format(c)) end
      if #content % 2 == 1 then socket:send(("1\r\n%s\r\n"):format(content:sub(-1))) end
      socket:send "0\r\n\r\n"
   else
      socket:send(("Content-Length: %d\r\n\r\n%s"):format(#content, content))
   end
   socket:close()
   if what:find "runs/update" then break end
end
]==]

-- Starts a server, makes it the tracking URI, and calls fn(folder, log). log() returns the requests that the server has
-- received. Returns the text that the library has printed on stderr.
local function with_server(mode, fn)
   shell.with_folder(function(folder)
      shell.write(folder .. "/server.lua", server)
      local pipe <close> = assert(io.popen(("exec %s %s/server.lua %s/log %s"):format(shell.start(),
         folder, folder, mode)))
      local port = pipe:read "l"
      mlflow.set_tracking_uri("http://127.0.0.1:" .. port)
      fn(folder, function()
         local list = {}
         for line in io.lines(folder .. "/log") do list[#list + 1] = line end
         return list
      end)
   end)
end

after_each(function()
   mlflow.set_tracking_uri "mlruns"
   mlflow.set_experiment "Default"
end)

describe("a run on a server", function()
   for _, mode in ipairs {"whole", "chunked"} do
      it("asks for what its API has, answers being " .. mode, function()
         with_server(mode, function(_, log)
            mlflow.set_experiment "two words"
            do
               local run <close> = mlflow.start_run {run_name = "first", tags = {kind = "test"}}
               assert.equal("0a1b", run.run_id)
               run:log_params {lr = 0.5}
               run:log_metric("loss", torch.tensor(0.25), 3)
               run:log_metrics({bad = 0 / 0, large = math.huge}, 4)
               run:log_text("hello", "notes/a b.txt")
            end
            local got = log()
            assert.equal("GET /api/2.0/mlflow/experiments/get-by-name?experiment_name=two%20words"
               .. " HTTP/1.1", got[1])
            assert.equal("POST /api/2.0/mlflow/experiments/create HTTP/1.1", got[3])
            assert.same({name = "two words"}, json.decode(got[4]))
            local created = json.decode(got[6])
            assert.equal("first", created.run_name)
            assert.equal("17", created.experiment_id)
            assert.equal("test", created.tags[2].value)
            assert.same({run_id = "0a1b", params = {{key = "lr", value = "0.5"}}}, json.decode(got[8]))
            local metric = json.decode(got[10]).metrics[1]
            assert.same({"loss", 0.25, 3}, {metric.key, metric.value, metric.step})
            assert.is_true(metric.timestamp > 1.6e12)
            local words = json.decode(got[12]).metrics
            assert.same({"NaN", "Infinity"}, {words[1].value, words[2].value})
            assert.equal("PUT /api/2.0/mlflow-artifacts/artifacts/17/0a1b/artifacts/notes/a%20b.txt"
               .. " HTTP/1.1", got[13])
            assert.equal("hello", got[14])
            local update = json.decode(got[16])
            assert.equal("FINISHED", update.status)
         end)
      end)
   end

   it("has failed if it ends with an error", function()
      with_server("whole", function(_, log)
         local ok = pcall(function()
            local run <close> = mlflow.start_run() -- luacheck: ignore 211
            error "training"
         end)
         assert.is_false(ok)
         local got = log()
         assert.equal("FAILED", json.decode(got[#got]).status)
      end)
   end)

   it("raises the server's error message", function()
      with_server("refuse", function()
         local run = mlflow.start_run()
         assert.raises("mlflow: no such thing", function() run:log_param("a", 1) end)
         run:finish()
      end)
   end)

   it("continues in a folder if the server fails or does not exist", function()
      -- This runs in a separate process, because the library prints on stderr and writes into the working folder.
      with_server("break", function(folder)
         local uri = mlflow.get_tracking_uri()
         shell.write(folder .. "/train.lua", ([[
            local mlflow = torch.utils.mlflow
            mlflow.set_tracking_uri %q
            local run <close> = mlflow.start_run {run_name = "r"}
            run:log_metric("loss", 1, 1)
            run:log_metric("loss", 2, 2)
            print(run.artifact_uri)]]):format(uri))
         local tlua = shell.tlua:find "^/" and shell.tlua or os.getenv "PWD" .. "/" .. shell.tlua
         local output = shell.ok(("cd %s && %s train.lua"):format(folder, shell.quote(tlua)))
         assert.matches("mlflow: http://127.0.0.1:%d+: the server answers 503; the run goes on in "
            .. "mlruns", output)
         local path = output:match "file://(.-)/artifacts"
         assert.matches("^%d+ 1 1\n%d+ 2 2\n$", shell.read(path .. "/metrics/loss"))
         assert.matches("\nstatus: 3\n", shell.read(path .. "/meta.yaml"))
         -- This request tells the server to end.
         http.request("POST", uri .. "/api/2.0/mlflow/runs/update", {body = "{}"})
         shell.write(folder .. "/train.lua", shell.read(folder .. "/train.lua"):gsub("%d+\"", "1\""))
         output = shell.ok(("cd %s && %s train.lua"):format(folder, shell.quote(tlua)))
         assert.matches("no connection to 127.0.0.1:1: .*the run goes on in mlruns", output)
      end)
   end)
end)

describe("a run in a folder", function()
   it("has the files that MLflow's file store writes", shell.in_folder(function(folder)
      mlflow.set_tracking_uri("file://" .. folder .. "/a'b")
      mlflow.set_experiment "it's"
      local path, id
      do
         local run <close> = mlflow.start_run {run_name = "first"}
         run:log_param("model.width", 64)
         run:log_metric("val/loss", 0.1, 1)
         run:log_metric("val/loss", -math.huge, 2)
         run:set_tag("note", "two\nlines")
         shell.write(folder .. "/weights.bin", "\0\1\2")
         run:log_artifact(folder .. "/weights.bin", "model")
         path, id = run.artifact_uri:match "^file://(.*/a'b/.-)/artifacts$", run.experiment_id
         assert.matches("\nstatus: 1\n", shell.read(path .. "/meta.yaml"))
         assert.matches("\nend_time: null\n", shell.read(path .. "/meta.yaml"))
      end
      assert.equal("64", shell.read(path .. "/params/model.width"))
      assert.matches("^%d+ 0.1%d* 1\n%d+ %-inf 2\n$", shell.read(path .. "/metrics/val/loss"))
      assert.equal("two\nlines", shell.read(path .. "/tags/note"))
      assert.equal("first", shell.read(path .. "/tags/mlflow.runName"))
      assert.equal("\0\1\2", shell.read(path .. "/artifacts/model/weights.bin"))
      assert.matches("\nstatus: 3\n", shell.read(path .. "/meta.yaml"))
      assert.matches("\nname: 'it''s'\n", shell.read(path .. "/../meta.yaml"))
      local again = mlflow.start_run()
      assert.equal(id, again.experiment_id)
      again:finish "KILLED"
      assert.equal("KILLED", again.status)
      assert.raises("log_metrics: the run has ended: KILLED", function() again:log_metrics({a = 1}, 1) end)
   end))

   it("draws no numbers from torch's generator", shell.in_folder(function(folder)
      mlflow.set_tracking_uri(folder)
      torch.manual_seed(3)
      local expected = torch.rand(1):item()
      torch.manual_seed(3)
      mlflow.start_run():finish()
      assert.equal(expected, torch.rand(1):item())
   end))
end)

it("mistakes raise errors", function()
   local function uri(text) return function() mlflow.set_tracking_uri(text) end end
   assert.raises("mlflow: expected http://host:port, file:///folder or a folder, got", uri "sqlite:///a.db")
   assert.raises("mlflow: expected a host, and a port from 1 to 65535, got", uri "http://host:70000")
   assert.raises("uri: expected a string, got 3", function() mlflow.set_tracking_uri(3) end)
   assert.raises("experiment_name: expected a name", function() mlflow.set_experiment "" end)
   assert.raises("unknown option name", function() mlflow.start_run {name = "x"} end)
   shell.with_folder(function(folder)
      mlflow.set_tracking_uri(folder)
      local run <close> = mlflow.start_run()
      assert.raises("key: expected a name of letters", function() run:log_param("../../x", 1) end)
      assert.raises("value: expected a number or a tensor of one, got", function() run:log_metric("a", "b", 1) end)
      assert.raises("step: expected an integer, got 1.5", function() run:log_metric("a", 1, 1.5) end)
      assert.raises("artifact_file: expected a path below the run's folder", function() run:log_text("x", "../x") end)
      assert.raises("log_artifact: ", "nowhere", function() run:log_artifact "nowhere" end)
      assert.raises("log_artifact: artifact_path: expected a folder, got a table",
         function() run:log_artifact("nowhere", {}) end)
      assert.raises("log_text: contents: expected a string, got 3", function() run:log_text(3, "x") end)
      assert.raises("log_params: params: expected a table, got 3", function() run:log_params(3) end)
      assert.raises("log_params: params: expected a table, got an instance of nn.ReLU",
         function() run:log_params(torch.nn.ReLU()) end)
      run:log_params(setmetatable({width = 4}, {__index = {depth = 2}}))
      assert.raises("log_metrics: metrics: expected a table, got nil", function() run:log_metrics() end)
      run:log_param("lr", 0.1)
      run:log_param("lr", 0.1)
      assert.raises('mlflow: lr: the parameter has the value "0.1" already, which cannot be changed to "0.2"',
         function() run:log_params {batch = 64, lr = 0.2} end)
      local params = run.artifact_uri:match "^file://(.*)/artifacts$" .. "/params/"
      assert.equal("0.1", shell.read(params .. "lr"))
      assert.is_nil(io.open(params .. "batch"))
      assert.raises('status: expected "FINISHED", "FAILED" or "KILLED", got "DONE"', function() run:finish "DONE" end)
   end)
end)
