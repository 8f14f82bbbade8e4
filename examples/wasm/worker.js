// Runs Lua beside the page, so that it stays alive while a network is trained.
'use strict';

// A line as a terminal would show it: a progress bar begins it anew.
const say = text => postMessage({text: text.split('\r').pop().replace(/\x1b\[\d*\w/g, '')});

// `tlua.js` looks for this object as it starts.
var Module = {
  print: say,
  printErr: say,
  onRuntimeInitialized() {
    const evaluate = Module.cwrap('evaluate', null, ['string']);
    onmessage = event => {
      try {
        evaluate(event.data);
      } catch (error) {
        say('stopped: ' + error);
      }
      postMessage({ready: true});
    };
    // after main has run
    setTimeout(() => postMessage({ready: true}));
  },
};

importScripts('tlua.js');
