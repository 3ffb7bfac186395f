// The code editor of /problems/{slug}/submit: CodeMirror with what static/editor.js uses of it.
import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { cppLanguage } from "@codemirror/lang-cpp";
import { pythonLanguage } from "@codemirror/lang-python";
import {
  bracketMatching, indentOnInput, indentUnit, syntaxHighlighting,
} from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, RangeSet, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration, EditorView, GutterMarker, gutter, highlightActiveLine, keymap, lineNumbers, WidgetType,
} from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

const LANGUAGES = { py: pythonLanguage, cpp: cppLanguage, cu: cppLanguage, cuh: cppLanguage };

// Marks: the lines of a result's errors, each with a message.

class Message extends WidgetType {
  constructor(text) {
    super();
    this.text = text;
  }

  eq(other) {
    return other.text === this.text;
  }

  toDOM() {
    const element = document.createElement("div");
    element.className = "cm-error-message";
    element.textContent = this.text;
    return element;
  }
}

class ErrorMarker extends GutterMarker {
  toDOM() {
    const element = document.createElement("span");
    element.className = "cm-error-marker";
    element.textContent = "✗";
    return element;
  }
}

const errorMarker = new ErrorMarker();
const errorLine = Decoration.line({ class: "cm-error-line" });
const setMarks = StateEffect.define();

function decorate(state, marks) {
  const ranges = marks
    .filter(({ line }) => line >= 1 && line <= state.doc.lines)
    .flatMap(({ line, message }) => {
      const { from, to } = state.doc.line(line);
      const widget = Decoration.widget({ widget: new Message(message), block: true, side: 1 });
      return message ? [errorLine.range(from), widget.range(to)] : [errorLine.range(from)];
    });
  return Decoration.set(ranges, true);
}

const marksField = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(setMarks)) return decorate(transaction.state, effect.value);
    }
    return marks.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

const marksGutter = gutter({
  class: "cm-error-gutter",
  markers(view) {
    const markers = [];
    view.state.field(marksField).between(0, view.state.doc.length, (from, to, decoration) => {
      if (decoration === errorLine) markers.push(errorMarker.range(from));
    });
    return RangeSet.of(markers);
  },
  initialSpacer: () => errorMarker,
});

// Replaces a text field, which keeps its value for the form. `describedBy` is the id of its help.
function openCodeEditor(field, { nonce, describedBy, onChange, onSubmit }) {
  const language = new Compartment();
  const extensions = [
    EditorView.cspNonce.of(nonce),
    EditorView.contentAttributes.of({
      "aria-label": "Code",
      "aria-describedby": describedBy,
      tabindex: "0",
    }),
    lineNumbers(),
    marksField,
    marksGutter,
    history(),
    indentUnit.of("    "),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    search({ top: true }),
    syntaxHighlighting(classHighlighter),
    language.of([]),
    keymap.of([
      { key: "Mod-Enter", run: () => (onSubmit(), true) },
      // The next Tab leaves the editor, which would keep the keyboard otherwise.
      { key: "Escape", run: (view) => (view.setTabFocusMode(true), false) },
      ...closeBracketsKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...defaultKeymap,
      indentWithTab,
    ]),
    EditorView.domEventHandlers({ blur: (_, view) => view.setTabFocusMode(false) }),
    EditorView.updateListener.of((update) => {
      if (!update.docChanged) return;
      update.view.setTabFocusMode(false);
      onChange();
    }),
  ];
  const newState = (doc) => EditorState.create({ doc, extensions });
  const view = new EditorView({ state: newState(field.value) });
  let suffix = "";
  const setLanguage = (newSuffix) => {
    suffix = newSuffix;
    view.dispatch({ effects: language.reconfigure(LANGUAGES[suffix] ?? pythonLanguage) });
  };
  field.before(view.dom);
  field.hidden = true;
  return {
    get value() {
      return view.state.doc.toString();
    },
    // Loads other code, which cannot be undone.
    load(code) {
      view.setState(newState(code));
      setLanguage(suffix);
      onChange();
    },
    setLanguage,
    // Takes objects with `line` and `message`, and shows the first.
    mark(marks) {
      view.dispatch({ effects: setMarks.of(marks) });
      const line = marks[0]?.line;
      if (line >= 1 && line <= view.state.doc.lines) {
        const { from } = view.state.doc.line(line);
        view.dispatch({ effects: EditorView.scrollIntoView(from, { y: "center" }) });
      }
    },
    focus: () => view.focus(),
    save() {
      field.value = view.state.doc.toString();
    },
  };
}

window.openCodeEditor = openCodeEditor;
